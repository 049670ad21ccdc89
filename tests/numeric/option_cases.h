/* Options of a problem alone and in pairs, for the tests of each operation. */
#ifndef OPTION_CASES_H
#define OPTION_CASES_H

#include <stdio.h>

#include "suite.h"
#include "support/options.h"

/* Two options on one problem; `second` may equal `first`. */
static inline void option_case(clattn_operation operation, clattn_dtype dtype, int first, int second)
{
    /* more keys than queries, neither a multiple of a tile, two tiles of each */
    struct trial trial;
    trial_init(&trial, operation, &(clattn_sizes){2, 2, 1, 37, 45, 16, 16});
    trial.problem.dtype = trial.problem.out_dtype = dtype;
    trial.problem.bias_dtype = dtype;
    trial_add_derivatives(&trial);
    trial_options[first].set(&trial);
    if (second != first)
        trial_options[second].set(&trial);
    trial_fill(&trial, (uint64_t)(first * 100 + second));
    if (trial_options[first].finish)
        trial_options[first].finish(&trial);
    if (second != first && trial_options[second].finish)
        trial_options[second].finish(&trial);
    char what[160];
    snprintf(what, sizeof what, "%s %s, %s with %s", clattn_operation_name(operation),
             clattn_dtype_name(dtype), trial_options[first].name, trial_options[second].name);
    must_pass(&trial, what);
}

static inline bool can_be_paired(int first, int second)
{
    const struct trial_option *a = &trial_options[first], *b = &trial_options[second];
    return first == second || (a->paired && b->paired && (!a->excludes || a->excludes != b->excludes));
}

static inline void options_in_pairs(clattn_operation operation)
{
    for (int first = 0; first < trial_option_count; first++)
        for (int second = first; second < trial_option_count; second++)
            if (can_be_paired(first, second))
                option_case(operation, CLATTN_F32, first, second);
}

/* The options whose code depends on the element type, each alone, in all four operations. */
static inline void options_alone(clattn_dtype dtype)
{
    for (int option = 0; option < trial_option_count; option++)
        for (int operation = 0; trial_options[option].type_matters && operation < CLATTN_OPERATION_COUNT;
             operation++)
            option_case((clattn_operation)operation, dtype, option, option);
}

#endif /* OPTION_CASES_H */
