/* Every engine in f16 and bf16, with the options whose code depends on the type. */
#include "option_cases.h"

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
static void test_f32_outputs_of_half_inputs(void **state)
{
    (void)state;
    static const clattn_dtype halves[] = {CLATTN_F16, CLATTN_BF16};
    for (int i = 0; i < 2; i++) {
        struct trial trial;
        trial_init(&trial, CLATTN_HVP, &(clattn_sizes){1, 1, 1, 21, 34, 16, 16});
        trial.problem.dtype = halves[i];
        trial.problem.out_dtype = CLATTN_F32;
        trial_add_derivatives(&trial);
        trial_add_bias(&trial, 0); /* f32 beside half inputs */
        trial_fill(&trial, 4);
        must_pass(&trial, "f32 outputs");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_in_f16),
        cmocka_unit_test(test_options_in_bf16),
        cmocka_unit_test(test_f32_outputs_of_half_inputs),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
