/* Every engine in every type but f32, with the options whose code depends on the type; all four operations. */
#include "option_cases.h"

static void options_alone(clattn_dtype dtype)
{
    for (int option = 0; option < trial_option_count; option++)
        for (int operation = 0; trial_options[option].type_matters && operation < CLATTN_OPERATION_COUNT;
             operation++)
            option_case((clattn_operation)operation, dtype, option, option);
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
    if (!suite_device().has_fp64) {
        print_message("skipped: the device has no cl_khr_fp64\n");
        skip();
    }
    options_alone(CLATTN_F64);
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
        cmocka_unit_test(test_options_in_f64),
        cmocka_unit_test(test_f32_outputs_of_half_inputs),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
