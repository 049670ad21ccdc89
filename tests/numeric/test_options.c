/* Every engine with every option, alone and in pairs; every subset of tangents; every type. */
#include <stdio.h>

#include "suite.h"
#include "support/options.h"

static void give_tangents(struct trial *trial)
{
    clattn_problem *p = &trial->problem;
    p->present[CLATTN_TQ] = p->present[CLATTN_TK] = p->present[CLATTN_TV] = true;
}

/* Two options on one problem; `second` may equal `first`. */
static void option_case(clattn_operation operation, clattn_dtype dtype, int first, int second)
{
    /* more keys than queries, neither a multiple of a tile, two tiles of each */
    struct trial trial;
    trial_init(&trial, operation, &(clattn_sizes){2, 2, 1, 37, 45, 16, 16});
    trial.problem.dtype = trial.problem.out_dtype = dtype;
    trial.problem.bias_dtype = dtype;
    if (operation == CLATTN_JVP)
        give_tangents(&trial);
    trial_options[first].set(&trial);
    if (second != first)
        trial_options[second].set(&trial);
    trial_fill(&trial, (uint64_t)(first * 100 + second));
    if (trial_options[first].finish)
        trial_options[first].finish(&trial);
    if (second != first && trial_options[second].finish)
        trial_options[second].finish(&trial);
    char what[160];
    snprintf(what, sizeof what, "%s %s, %s with %s", clattn_operation_name(operation), clattn_dtype_name(dtype),
             trial_options[first].name, trial_options[second].name);
    must_pass(&trial, what);
}

static void options_in_pairs(clattn_operation operation)
{
    for (int first = 0; first < trial_option_count; first++)
        for (int second = first; second < trial_option_count; second++)
            if (first == second || !trial_options[first].excludes ||
                trial_options[first].excludes != trial_options[second].excludes)
                option_case(operation, CLATTN_F32, first, second);
}
static void test_forward_options_in_pairs(void **state)
{
    (void)state;
    options_in_pairs(CLATTN_FORWARD);
}
static void test_jvp_options_in_pairs(void **state)
{
    (void)state;
    options_in_pairs(CLATTN_JVP);
}

static void options_alone(clattn_dtype dtype)
{
    for (int option = 0; option < trial_option_count; option++) {
        option_case(CLATTN_FORWARD, dtype, option, option);
        option_case(CLATTN_JVP, dtype, option, option);
    }
}
static void test_options_in_f16(void **state)
{
    (void)state;
    options_alone(CLATTN_F16);
}
static void test_options_in_bf16(void **state)
{
    (void)state;
    options_alone(CLATTN_BF16);
}
static void test_options_in_f64(void **state)
{
    (void)state;
    clattn_device_info info[64];
    int count;
    assert_int_equal(clattn_devices(info, 64, &count), CLATTN_SUCCESS);
    for (int i = 0; i < count && i < 64; i++)
        if (info[i].id == clattn_context_device(suite_context) && !info[i].has_fp64) {
            print_message("skipped: the device has no cl_khr_fp64\n");
            skip();
        }
    options_alone(CLATTN_F64);
}

/* Bit 0 tq, 1 tk, 2 tv, 3 tbias. */
static void test_every_subset_of_tangents(void **state)
{
    (void)state;
    for (unsigned subset = 0; subset < 16; subset++) {
        struct trial trial;
        trial_init(&trial, CLATTN_JVP, &(clattn_sizes){1, 2, 2, 21, 34, 16, 16});
        clattn_problem *p = &trial.problem;
        p->present[CLATTN_TQ] = subset & 1;
        p->present[CLATTN_TK] = (subset & 2) != 0;
        p->present[CLATTN_TV] = (subset & 4) != 0;
        p->present[CLATTN_BIAS] = p->present[CLATTN_TBIAS] = (subset & 8) != 0;
        trial_fill(&trial, subset);
        char what[64];
        snprintf(what, sizeof what, "jvp with tangents %u", subset);
        must_pass(&trial, what);
    }
}

static void test_several_tangents_in_one_pass(void **state)
{
    (void)state;
    static const int64_t counts[] = {2, 3, 8, 9};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct trial trial;
        trial_init(&trial, CLATTN_JVP, &(clattn_sizes){2, 2, 1, 21, 34, 16, 8});
        trial.problem.tangents = counts[i];
        give_tangents(&trial);
        clattn_problem_set_contiguous(&trial.problem, false);
        trial.problem.present[CLATTN_BIAS] = trial.problem.present[CLATTN_TBIAS] = true;
        trial_broadcast(&trial, CLATTN_BIAS, 2);
        trial_fill(&trial, 3);
        char what[64];
        snprintf(what, sizeof what, "jvp with %d tangents", (int)counts[i]);
        must_pass(&trial, what);
    }
}

static void test_f32_outputs_of_half_inputs(void **state)
{
    (void)state;
    static const clattn_dtype halves[] = {CLATTN_F16, CLATTN_BF16};
    for (int i = 0; i < 2; i++) {
        struct trial trial;
        trial_init(&trial, CLATTN_JVP, &(clattn_sizes){1, 1, 1, 21, 34, 16, 16});
        trial.problem.dtype = halves[i];
        trial.problem.out_dtype = CLATTN_F32;
        trial.problem.present[CLATTN_BIAS] = true; /* f32 beside half inputs */
        give_tangents(&trial);
        trial_fill(&trial, 4);
        must_pass(&trial, "f32 outputs");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward_options_in_pairs),    cmocka_unit_test(test_jvp_options_in_pairs),
        cmocka_unit_test(test_options_in_f16),              cmocka_unit_test(test_options_in_bf16),
        cmocka_unit_test(test_options_in_f64),              cmocka_unit_test(test_every_subset_of_tangents),
        cmocka_unit_test(test_several_tangents_in_one_pass), cmocka_unit_test(test_f32_outputs_of_half_inputs),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
