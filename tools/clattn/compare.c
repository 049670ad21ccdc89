/*
 * Results against the arrays of --expect. Knows nothing of devices.
 */
#include "compare.h"

#include "cli.h"
#include "convert.h"
#include "inputs.h"
#include "shapes.h"
#include "tensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

double compare_bar(const run_options *options)
{
    static const struct {
        double forward, derivative;
    } bars[CLATTN_DTYPE_COUNT] = {
        [CLATTN_F32] = {2e-6, 1e-5},
        [CLATTN_F16] = {1e-3, 2e-3},
        [CLATTN_BF16] = {6e-3, 1.5e-2},
        [CLATTN_F64] = {1e-12, 1e-12},
    };
    if (options->tolerance >= 0)
        return options->tolerance;
    /* f64 results that were rounded to f32 are as good as f32 holds them */
    clattn_dtype dtype = options->dtype == CLATTN_F64 && options->out_f32 ? CLATTN_F32 : options->dtype;
    return options->operation == CLATTN_FORWARD ? bars[dtype].forward : bars[dtype].derivative;
}

/* What is compared, and how. */
typedef struct comparand {
    const npy_array *result, *expected;
    clattn_dtype stored; /* type that the result was rounded to on the device */
    bool by_element;     /* lse, tlse */
} comparand;

static double load(const npy_array *array, size_t index)
{
    return convert_load(array->data, inputs_file_dtype(array->type), index);
}

typedef enum row_class {
    ROW_FINITE,
    ROW_MINUS_INFINITY, /* an lse with nothing to attend to */
    ROW_NOT_FINITE
} row_class;

/* The value as the device could have stored it decides: an expected 1e5 is infinity in f16. */
static row_class classify(const comparand *pair, const npy_array *array, size_t start, size_t length)
{
    for (size_t i = start; i < start + length; i++) {
        double value = convert_round(load(array, i), pair->stored);
        if (pair->by_element && value == -INFINITY)
            return ROW_MINUS_INFINITY;
        if (!isfinite(value))
            return ROW_NOT_FINITE;
    }
    return ROW_FINITE;
}

/* Sums of squares are wider than double: f64 results may be large. */
typedef struct error_sums {
    long double error, reference;
    double maximum;
} error_sums;

static void add_row(const comparand *pair, size_t start, size_t length, error_sums *sums)
{
    for (size_t i = start; i < start + length; i++) {
        double expected = load(pair->expected, i);
        double error = fabs(load(pair->result, i) - expected);
        sums->error += (long double)error * error;
        sums->reference += (long double)expected * expected;
        sums->maximum = fmax(sums->maximum, error);
    }
}

static comparison compare_arrays(const comparand *pair, double bar)
{
    comparison outcome = {.made = true, .bad_row = -1};
    const npy_array *result = pair->result;
    size_t count = npy_count(result);
    size_t length = pair->by_element || count == 0 ? 1 : (size_t)result->shape[result->rank - 1];
    error_sums sums = {0, 0, 0};
    for (size_t start = 0; start < count && outcome.bad_row < 0; start += length) {
        row_class ours = classify(pair, result, start, length);
        if (ours != classify(pair, pair->expected, start, length))
            outcome.bad_row = (int64_t)(start / length);
        else if (ours == ROW_FINITE)
            add_row(pair, start, length, &sums);
    }
    outcome.maximum = outcome.bad_row < 0 ? sums.maximum : INFINITY;
    outcome.relative = outcome.maximum;
    if (outcome.bad_row < 0 && sums.reference > 0)
        outcome.relative = (double)sqrtl(sums.error / sums.reference);
    outcome.ok = outcome.relative <= bar;
    return outcome;
}

static int check_expected(const char *path, const npy_array *expected, const npy_array *result)
{
    if (!tensor_accepts(CLATTN_O, expected->type))
        return cli_fail("--expect: %s: type %s, expected %s", path, npy_type_name(expected->type),
                        tensor_accepted_types(CLATTN_O));
    if (expected->rank == result->rank &&
        memcmp(expected->shape, result->shape, (size_t)result->rank * sizeof result->shape[0]) == 0)
        return CLI_OK;
    char found[SHAPE_TEXT_SIZE], wanted[SHAPE_TEXT_SIZE];
    shapes_format(expected->rank, expected->shape, found);
    shapes_format(result->rank, result->shape, wanted);
    return cli_fail("--expect: %s: shape %s, expected %s", path, found, wanted);
}

static int compare_with_file(const char *path, comparand *pair, double bar, comparison *outcome)
{
    npy_array expected;
    npy_error error;
    if (access(path, F_OK) != 0)
        return CLI_OK;
    if (!npy_load(path, &expected, &error))
        return cli_fail("--expect: %s", error.text);
    int code = check_expected(path, &expected, pair->result);
    if (code == CLI_OK) {
        pair->expected = &expected;
        *outcome = compare_arrays(pair, bar);
    }
    npy_release(&expected);
    return code;
}

int compare_results(const run_options *options, const clattn_problem *problem,
                    const npy_array results[CLATTN_TENSOR_COUNT], comparison comparisons[CLATTN_TENSOR_COUNT])
{
    bool any = false;
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        clattn_tensor tensor = (clattn_tensor)t;
        comparand pair = {.result = &results[t], .by_element = t == CLATTN_LSE || t == CLATTN_TLSE};
        if (!results[t].data || !tensor_real_dtype(problem, tensor, &pair.stored))
            continue;
        char *path = tensor_path(options->expect, tensor);
        int code = path ? compare_with_file(path, &pair, compare_bar(options), &comparisons[t])
                        : cli_fail("out of memory");
        free(path);
        if (code != CLI_OK)
            return code;
        any = any || comparisons[t].made;
    }
    return any ? CLI_OK
               : cli_fail("--expect: %s: has none of the results of %s, expected o.npy or others",
                          options->expect, clattn_operation_name(options->operation));
}

int compare_count_bad(const comparison comparisons[CLATTN_TENSOR_COUNT])
{
    int bad = 0;
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        bad += comparisons[t].made && !comparisons[t].ok;
    return bad;
}
