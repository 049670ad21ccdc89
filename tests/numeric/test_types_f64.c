/* Every engine in f64, with the options whose code depends on the type. */
#include "option_cases.h"

static void test_options_in_f64(void **state)
{
    (void)state;
    if (!suite_device().has_fp64) {
        print_message("skipped: the device has no cl_khr_fp64\n");
        skip();
    }
    options_alone(CLATTN_F64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_in_f64),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
