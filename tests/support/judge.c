/* Errors and bars. Knows neither what an output means nor how it was computed. */
#include "judge.h"

#include <math.h>

/* Below this share of its terms' size a reference is what cancellation left. */
#define CANCELLED 1e-3
/* An ill-conditioned problem allows so many times the error of plain f32. */
#define PLAIN_F32_FACTOR 3.0

double judge_bar(enum number_format format, enum oracle_operation operation)
{
    bool forward = operation == ORACLE_FORWARD;
    switch (format) {
    case FORMAT_F64:
        return 1e-12;
    case FORMAT_TF32:
        return 1e-3;
    case FORMAT_F16:
        return forward ? 1e-3 : 2e-3;
    case FORMAT_BF16:
        return forward ? 6e-3 : 1.5e-2;
    default:
        return forward ? 2e-6 : 1e-5;
    }
}

static bool row_is_finite(const double *row, int64_t length)
{
    for (int64_t d = 0; d < length; d++)
        if (!isfinite(row[d]))
            return false;
    return true;
}

static bool row_agrees(const double *ours, const double *reference, int64_t length)
{
    if (length == 1 && *reference == -INFINITY)
        return *ours == -INFINITY;
    return row_is_finite(ours, length) == row_is_finite(reference, length);
}

/* ||x - reference||, and the largest element, over the rows that are finite in both. */
static double distance(const struct judge_case *given, const double *x, double *max_absolute)
{
    int64_t length = given->row_length;
    double squares = 0;
    *max_absolute = 0;
    for (int64_t e = 0; e < given->count; e += length) {
        if (!row_is_finite(x + e, length) || !row_is_finite(given->reference + e, length))
            continue;
        for (int64_t d = 0; d < length; d++) {
            double error = fabs(x[e + d] - given->reference[e + d]);
            squares += error * error;
            *max_absolute = fmax(*max_absolute, error);
        }
    }
    return sqrt(squares);
}

static double reference_norm(const struct judge_case *given)
{
    int64_t length = given->row_length;
    double squares = 0;
    for (int64_t e = 0; e < given->count; e += length)
        if (row_is_finite(given->reference + e, length))
            for (int64_t d = 0; d < length; d++)
                squares += given->reference[e + d] * given->reference[e + d];
    return sqrt(squares);
}

static double allowed_error(const struct judge_case *given, double norm)
{
    double allowed = given->bar * (norm < CANCELLED * given->size ? given->size : norm);
    double unused_max;
    if (given->plain_f32)
        allowed = fmax(allowed, PLAIN_F32_FACTOR * distance(given, given->plain_f32, &unused_max));
    return fmax(allowed, given->grain * sqrt((double)given->count));
}

static int64_t first_bad_row(const struct judge_case *given)
{
    int64_t length = given->row_length;
    for (int64_t e = 0; e < given->count; e += length)
        if (!row_agrees(given->ours + e, given->reference + e, length))
            return e / length;
    return -1;
}

struct judge_verdict judge(const struct judge_case *given)
{
    struct judge_verdict verdict = {.bad_row = first_bad_row(given)};
    double norm = reference_norm(given);
    verdict.error = distance(given, given->ours, &verdict.max_absolute);
    verdict.allowed = allowed_error(given, norm);
    verdict.relative = verdict.error > 0 ? verdict.error / norm : 0;
    verdict.passes = verdict.bad_row < 0 && verdict.error <= verdict.allowed;
    return verdict;
}
