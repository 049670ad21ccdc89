/*
 * The judge: is one output of the library as close to the oracle's as it has
 * to be? Holds the bars and the way an error is measured; knows neither what
 * the output means nor how it was computed.
 */
#ifndef JUDGE_H
#define JUDGE_H

#include "oracle/oracle.h"
#include "support/round.h"

#include <stdbool.h>
#include <stdint.h>

/* The relative error allowed to an operation computed in a format. FORMAT_TF32
 * stands for f32 in the math mode that allows TF32. */
double judge_bar(enum number_format format, enum oracle_operation operation);

struct judge_case {
    const double *ours;
    const double *reference; /* the oracle's */
    const double *plain_f32; /* oracle_compute_f32's, for ill-conditioned problems; or NULL */
    int64_t count;           /* elements of each */
    int64_t row_length;      /* last axis, as oracle_array has it; count is a multiple of it */
    double size;             /* the terms' size, as oracle_array has it; 0 if unknown */
    double bar;              /* judge_bar */
    double grain; /* half the distance between the smallest numbers of the stored type; 0: negligible */
};

/* Norms are Frobenius norms, over the rows in which the reference is finite. */
struct judge_verdict {
    bool passes;         /* error <= allowed, and no bad row */
    double error;        /* ||ours - reference|| */
    double allowed;      /* the largest error that passes */
    double relative;     /* error / ||reference||; 0 if both are 0 */
    double max_absolute; /* max |ours - reference| */
    int64_t bad_row;     /* first row that is finite in one and not in the other, or -1 */
};

/* Non-finite values are judged by row: a row with one in the reference must
 * have one in ours and the other way round, and is then left out of the
 * errors. Where arrays are judged by element (row_length 1) a reference of
 * -inf must be met exactly: it is a log-sum-exp of nothing.
 *
 * The error allowed is the largest of
 *   bar x ||reference||;
 *   bar x size, where ||reference|| < 1e-3 size: what is left of cancelled terms;
 *   3 x ||plain_f32 - reference||;
 *   grain x sqrt(count): what storing alone does to results that are subnormal. */
struct judge_verdict judge(const struct judge_case *given);

#endif /* JUDGE_H */
