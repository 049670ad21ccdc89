/*
 * clattn check --logit: are the derivatives that a logit function gives those
 * of its values? With one head dim, keys of 1 and a window of one key, row i of
 * a problem is the function at x = q_i: L is y, the gradient of L for q is dy,
 * and its tangent is ddy. Each is compared with central differences of the one
 * before it.
 */
#include "check.h"

#include "cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    BATCH = 2,
    HEADS = 2,
    ROWS = 97,
    POINTS = BATCH * HEADS * ROWS
};

/* The function and its derivatives at every point, as the device has them. */
typedef struct samples {
    double y[POINTS], dy[POINTS], ddy[POINTS];
} samples;

typedef struct probe {
    clattn_context *context;
    clattn_dtype dtype;
    const logit_function *function;
    double step;      /* of the differences */
    double tolerance; /* of their agreement, relative to 1 + |value| */
} probe;

/* x runs over -6 .. 6, the same for each batch and head. */
static double x_of(int point) { return -6 + 12.0 * (point % ROWS) / (ROWS - 1); }

static clattn_problem problem_of(const probe *p)
{
    clattn_problem problem;
    clattn_problem_init(&problem, CLATTN_HVP, &(clattn_sizes){BATCH, HEADS, HEADS, ROWS, ROWS, 1, 1});
    problem.dtype = problem.out_dtype = p->dtype;
    problem.window_left = problem.window_right = 0;
    problem.logit = p->function->text;
    problem.logit_data_count = p->function->data_count;
    static const clattn_tensor extra[] = {CLATTN_TQ, CLATTN_DLSE, CLATTN_LOGIT_DATA};
    for (int i = 0; i < 3; i++)
        problem.present[extra[i]] = true;
    for (int t = CLATTN_O; t < CLATTN_TENSOR_COUNT; t++)
        problem.present[t] = t == CLATTN_LSE || t == CLATTN_DQ || t == CLATTN_TDQ;
    return problem;
}

static void put(void *array, clattn_dtype dtype, int index, double value)
{
    if (dtype == CLATTN_F64)
        ((double *)array)[index] = value;
    else
        ((float *)array)[index] = (float)value;
}

static double get(const void *array, clattn_dtype dtype, int index)
{
    return dtype == CLATTN_F64 ? ((const double *)array)[index] : ((const float *)array)[index];
}

/* Computes at x + shift. */
static int sample(const probe *p, double shift, samples *out)
{
    static double storage[CLATTN_TENSOR_COUNT][POINTS];
    const clattn_problem problem = problem_of(p);
    void *arrays[CLATTN_TENSOR_COUNT] = {NULL};
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        if (!problem.present[t])
            continue;
        arrays[t] = t == CLATTN_LOGIT_DATA ? (void *)p->function->data : (void *)storage[t];
        const double value = t == CLATTN_V || t == CLATTN_DO ? 0 : 1;
        for (int n = 0; n < POINTS && t != CLATTN_LOGIT_DATA; n++)
            put(arrays[t], p->dtype, n, t == CLATTN_Q ? x_of(n) + shift : value);
    }
    const clattn_status status = clattn_compute(p->context, CLATTN_HVP, &problem, arrays);
    if (status != CLATTN_SUCCESS)
        return cli_library_failure(status);
    for (int n = 0; n < POINTS; n++) {
        out->y[n] = get(arrays[CLATTN_LSE], p->dtype, n);
        out->dy[n] = get(arrays[CLATTN_DQ], p->dtype, n);
        out->ddy[n] = get(arrays[CLATTN_TDQ], p->dtype, n);
    }
    return CLI_OK;
}

/* Compares one derivative with differences of what it derives; says where they part furthest. */
static int judge(const probe *p, const char *name, const double *given, const double *above,
                 const double *below)
{
    int worst = -1;
    double worst_error = 0, difference = 0;
    for (int n = 0; n < POINTS; n++) {
        const double slope = (above[n] - below[n]) / (2 * p->step);
        if (!isfinite(slope)) /* a masked point: y is -inf there */
            continue;
        const double error = fabs(slope - given[n]) / (1 + fabs(slope));
        if (error <= p->tolerance && !isnan(given[n]))
            continue;
        if (worst < 0 || !(error <= worst_error)) {
            worst = n;
            worst_error = error;
            difference = slope;
        }
    }
    if (worst < 0) {
        printf("%-4s agrees with finite differences\n", name);
        return CLI_OK;
    }
    return cli_fail("--logit: %s at x = %g, b = %d, h = %d, i = j = %d is %.9g, finite differences give %.9g",
                    name, x_of(worst), worst / ROWS / HEADS, worst / ROWS % HEADS, worst % ROWS, given[worst],
                    difference);
}

int check_logit(clattn_context *context, bool has_fp64, const logit_function *function)
{
    const probe p = {context, has_fp64 ? CLATTN_F64 : CLATTN_F32, function, has_fp64 ? 1e-4 : 1e-2,
                     has_fp64 ? 1e-6 : 1e-2};
    static samples at, above, below;
    int code = sample(&p, 0, &at);
    if (code == CLI_OK)
        code = sample(&p, p.step, &above);
    if (code == CLI_OK)
        code = sample(&p, -p.step, &below);
    if (code != CLI_OK)
        return code;
    const int first = judge(&p, "dy", at.dy, above.y, below.y);
    const int second = judge(&p, "ddy", at.ddy, above.dy, below.dy);
    return first != CLI_OK ? first : second;
}
