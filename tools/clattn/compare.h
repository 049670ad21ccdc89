/*
 * Results against the arrays of --expect. Knows nothing of devices.
 */
#ifndef CLATTN_TOOL_COMPARE_H
#define CLATTN_TOOL_COMPARE_H

#include "npy.h"
#include "options.h"

typedef struct comparison {
    bool made;       /* the directory has an array for this result */
    double relative; /* ||x - ref|| / ||ref||, Frobenius; the maximum where ref is all 0 */
    double maximum;  /* max |x - ref| */
    int64_t bad_row; /* the first that is finite where the other is not; -1: none */
    bool ok;
} comparison;

/* --tolerance, or the default for the dtype and the operation. */
double compare_bar(const run_options *options);

/* Compares every result that the directory has. Rows (along the last axis; in
 * lse and tlse single elements) that are not finite must be so in both, and
 * have no part in the errors; in lse, -inf must be -inf in both. Prints what
 * is wrong with a file and returns the exit code, which says nothing of ok. */
int compare_results(const run_options *options, const clattn_problem *problem,
                    const npy_array results[CLATTN_TENSOR_COUNT],
                    comparison comparisons[CLATTN_TENSOR_COUNT]);

/* Results that were compared and are not ok. */
int compare_count_bad(const comparison comparisons[CLATTN_TENSOR_COUNT]);

#endif /* CLATTN_TOOL_COMPARE_H */
