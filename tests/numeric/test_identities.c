/*
 * What must hold between the operations, whatever the oracle says:
 *     <dO, O'> + <dL, L'> = <dQ, Q'> + <dK, K'> + <dV, V'> + <dB, B'>
 *     <u, H v> = <v, H u>, H the Hessian of <dO, O> + <dL, L>
 * and a backward call that is given O, L, O', L' agrees with one that computes them.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "suite.h"

/* Inputs with a tangent and a gradient, and their names in each role. */
static const struct {
    clattn_tensor tangent, gradient, tangent_of_gradient;
} variables[] = {
    {CLATTN_TQ, CLATTN_DQ, CLATTN_TDQ},
    {CLATTN_TK, CLATTN_DK, CLATTN_TDK},
    {CLATTN_TV, CLATTN_DV, CLATTN_TDV},
    {CLATTN_TBIAS, CLATTN_DBIAS, CLATTN_TDBIAS},
};
#define VARIABLES ((int)(sizeof variables / sizeof *variables))

static void set_up(struct trial *trial, clattn_operation operation, clattn_dtype dtype)
{
    trial_init(trial, operation, &(clattn_sizes){2, 4, 2, 37, 45, 16, 12});
    clattn_problem *p = &trial->problem;
    p->dtype = p->out_dtype = p->bias_dtype = dtype;
    p->softcap = 2;
    p->window_left = 20;
    trial_add_derivatives(trial);
    trial_add_bias(trial, 2);
    trial_fill(trial, 11);
}

static void compute(const char *engine, struct trial *trial, double *outputs[CLATTN_TENSOR_COUNT])
{
    bool clean;
    trial->problem.engine = engine;
    if (trial_compute(suite_context, trial, outputs, &clean) != CLATTN_SUCCESS)
        fail_msg("%s: %s", engine, clattn_message());
    assert_true(clean);
}

static void free_outputs(double *outputs[CLATTN_TENSOR_COUNT])
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        free(outputs[t]);
}

/* A sum of products, and the same of absolute values: what rounding is relative to. */
struct inner {
    double sum, size;
};

static void add_inner(struct inner *inner, const double *a, const double *b, int64_t count)
{
    for (int64_t n = 0; n < count; n++) {
        inner->sum += a[n] * b[n];
        inner->size += fabs(a[n] * b[n]);
    }
}

static void must_agree(const char *engine, const char *what, struct inner a, struct inner b, double bar)
{
    const double size = sqrt(a.size * b.size);
    if (!(fabs(a.sum - b.sum) <= bar * size))
        fail_msg("%s, %s: %.17g and %.17g, of terms of %.3g", engine, what, a.sum, b.sum, size);
}

static double bar_of(clattn_dtype dtype) { return dtype == CLATTN_F64 ? 1e-13 : 1e-6; }

static void jvp_against_vjp(const char *engine, clattn_dtype dtype)
{
    struct trial jvp, vjp;
    double *forward[CLATTN_TENSOR_COUNT], *backward[CLATTN_TENSOR_COUNT];
    set_up(&jvp, CLATTN_JVP, dtype);
    set_up(&vjp, CLATTN_VJP, dtype);
    compute(engine, &jvp, forward);
    compute(engine, &vjp, backward);
    struct inner outputs = {0, 0}, inputs = {0, 0};
    add_inner(&outputs, vjp.values[CLATTN_DO], forward[CLATTN_TO], trial_count(&vjp, CLATTN_DO));
    add_inner(&outputs, vjp.values[CLATTN_DLSE], forward[CLATTN_TLSE], trial_count(&vjp, CLATTN_DLSE));
    for (int v = 0; v < VARIABLES; v++)
        add_inner(&inputs, jvp.values[variables[v].tangent], backward[variables[v].gradient],
                  trial_count(&vjp, variables[v].gradient));
    must_agree(engine, "<dO, JVP> = <VJP, tangent>", outputs, inputs, bar_of(dtype));
    free_outputs(forward);
    free_outputs(backward);
    trial_free(&jvp);
    trial_free(&vjp);
}

static void test_jvp_is_the_transpose_of_vjp(void **state)
{
    (void)state;
    FOR_EACH_ENGINE(engine, CLATTN_F32)
    jvp_against_vjp(engine, CLATTN_F32);
    FOR_EACH_ENGINE(engine, CLATTN_F64)
    jvp_against_vjp(engine, CLATTN_F64);
}

/* Other tangents than set_up's, of the same shapes; the cotangents do not move. */
static void take_direction(struct trial *trial, double angle)
{
    for (int v = 0; v < VARIABLES; v++) {
        double *values = trial->values[variables[v].tangent];
        const int64_t count = trial_count(trial, variables[v].tangent);
        for (int64_t n = 0; n < count; n++)
            values[n] = (float)cos(angle * (double)(n % 1009 + v));
    }
    memset(trial->values[CLATTN_TDO], 0, (size_t)trial_count(trial, CLATTN_TDO) * sizeof(double));
    memset(trial->values[CLATTN_TDLSE], 0, (size_t)trial_count(trial, CLATTN_TDLSE) * sizeof(double));
}

static struct inner along(const struct trial *direction, double *const hessian_vector[])
{
    struct inner inner = {0, 0};
    for (int v = 0; v < VARIABLES; v++)
        add_inner(&inner, direction->values[variables[v].tangent],
                  hessian_vector[variables[v].tangent_of_gradient],
                  trial_count(direction, variables[v].tangent));
    return inner;
}

static void hessian_symmetry(const char *engine, clattn_dtype dtype)
{
    struct trial u, v;
    double *hu[CLATTN_TENSOR_COUNT], *hv[CLATTN_TENSOR_COUNT];
    set_up(&u, CLATTN_HVP, dtype);
    set_up(&v, CLATTN_HVP, dtype);
    take_direction(&u, 0.7);
    take_direction(&v, 1.3);
    compute(engine, &u, hu);
    compute(engine, &v, hv);
    must_agree(engine, "<u, H v> = <v, H u>", along(&u, hv), along(&v, hu), bar_of(dtype));
    free_outputs(hu);
    free_outputs(hv);
    trial_free(&u);
    trial_free(&v);
}

static void test_hessian_is_symmetric(void **state)
{
    (void)state;
    FOR_EACH_ENGINE(engine, CLATTN_F32)
    hessian_symmetry(engine, CLATTN_F32);
    FOR_EACH_ENGINE(engine, CLATTN_F64)
    hessian_symmetry(engine, CLATTN_F64);
}

/* An HVP that is given what a JVP call left, LSE_LOW with it or not. */
static void given_forward(const char *engine, bool with_low)
{
    struct trial jvp, hvp;
    double *outputs[CLATTN_TENSOR_COUNT];
    set_up(&jvp, CLATTN_JVP, CLATTN_F32);
    jvp.problem.present[CLATTN_LSE_LOW] = true;
    compute(engine, &jvp, outputs);
    set_up(&hvp, CLATTN_HVP, CLATTN_F32);
    hvp.problem.forward_given = true;
    for (int t = CLATTN_O; t <= CLATTN_TLSE; t++) {
        hvp.problem.present[t] = t != CLATTN_LSE_LOW || with_low;
        if (hvp.problem.present[t])
            hvp.values[t] = outputs[t];
        else
            free(outputs[t]);
    }
    must_pass_on(engine, &hvp, with_low ? "forward given with lse_low" : "forward given without lse_low");
    trial_free(&hvp);
    trial_free(&jvp);
}

static void test_gradients_of_a_given_forward(void **state)
{
    (void)state;
    FOR_EACH_ENGINE(engine, CLATTN_F32)
    {
        given_forward(engine, true);
        given_forward(engine, false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jvp_is_the_transpose_of_vjp),
        cmocka_unit_test(test_hessian_is_symmetric),
        cmocka_unit_test(test_gradients_of_a_given_forward),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
