/* Which tangents, cotangents and results a call has: subsets, several tangents, each result alone. */
#include <stdio.h>

#include "suite.h"

/* Bit 0 tq, 1 tk, 2 tv, 3 tbias, 4 tdo, 5 tdlse. */
static void tangent_case(clattn_operation operation, unsigned subset)
{
    struct trial trial;
    trial_init(&trial, operation, &(clattn_sizes){1, 2, 2, 21, 34, 16, 16});
    trial_add_derivatives(&trial);
    clattn_problem *p = &trial.problem;
    if (subset & 8)
        trial_add_bias(&trial, 0);
    p->present[CLATTN_TQ] = subset & 1;
    p->present[CLATTN_TK] = (subset & 2) != 0;
    p->present[CLATTN_TV] = (subset & 4) != 0;
    p->present[CLATTN_TDO] = (subset & 16) != 0;
    p->present[CLATTN_TDLSE] = (subset & 32) != 0;
    trial_fill(&trial, subset);
    char what[64];
    snprintf(what, sizeof what, "%s with tangents %u", clattn_operation_name(operation), subset);
    must_pass(&trial, what);
}
static void test_every_subset_of_tangents_of_jvp(void **state)
{
    (void)state;
    for (unsigned subset = 0; subset < 16; subset++)
        tangent_case(CLATTN_JVP, subset);
}
/* None, each alone, and each left out: what an absent one changes shows in one of them. */
static void test_subsets_of_tangents_of_hvp(void **state)
{
    (void)state;
    tangent_case(CLATTN_HVP, 0);
    for (unsigned bit = 0; bit < 6; bit++) {
        tangent_case(CLATTN_HVP, 1u << bit);
        tangent_case(CLATTN_HVP, 63u ^ 1u << bit);
    }
}

static void test_gradients_without_dlse(void **state)
{
    (void)state;
    for (int operation = CLATTN_VJP; operation <= CLATTN_HVP; operation++) {
        struct trial trial;
        trial_init(&trial, (clattn_operation)operation, &(clattn_sizes){1, 2, 1, 21, 34, 16, 16});
        trial_add_derivatives(&trial);
        trial.problem.present[CLATTN_DLSE] = trial.problem.present[CLATTN_TDLSE] = false;
        trial_fill(&trial, 5);
        must_pass(&trial, "without dlse");
    }
}

/* Each result alone: the others' kernels or outputs are left out, and what they need goes to the workspace. */
static void test_each_result_alone(void **state)
{
    (void)state;
    for (int result = CLATTN_O; result < CLATTN_TENSOR_COUNT; result++) {
        struct trial trial;
        trial_init(&trial, CLATTN_HVP, &(clattn_sizes){1, 2, 1, 21, 34, 16, 16});
        trial_add_derivatives(&trial);
        trial_add_bias(&trial, 0);
        if (result == CLATTN_LSE_LOW || result == CLATTN_DSINK || result == CLATTN_TDSINK)
            continue;
        for (int other = CLATTN_O; other < CLATTN_TENSOR_COUNT; other++)
            trial.problem.present[other] = other == result;
        trial_fill(&trial, 6);
        must_pass(&trial, clattn_tensor_name((clattn_tensor)result));
    }
}

static void several_tangents(clattn_operation operation, int64_t count)
{
    struct trial trial;
    trial_init(&trial, operation, &(clattn_sizes){2, 2, 1, 21, 34, 16, 8});
    trial.problem.tangents = count;
    trial_add_derivatives(&trial);
    clattn_problem_set_contiguous(&trial.problem, false);
    trial_add_bias(&trial, 2);
    trial_fill(&trial, 3);
    char what[64];
    snprintf(what, sizeof what, "%s with %d tangents", clattn_operation_name(operation), (int)count);
    must_pass(&trial, what);
}
static void test_several_tangents(void **state)
{
    (void)state;
    static const int64_t counts[] = {2, 3, 8, 9};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        several_tangents(CLATTN_JVP, counts[i]);
    several_tangents(CLATTN_HVP, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_subset_of_tangents_of_jvp),
        cmocka_unit_test(test_subsets_of_tangents_of_hvp),
        cmocka_unit_test(test_gradients_without_dlse),
        cmocka_unit_test(test_each_result_alone),
        cmocka_unit_test(test_several_tangents),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
