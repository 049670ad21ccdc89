/* Every engine with every option, alone and in pairs: forward and jvp. */
#include "option_cases.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward_options_in_pairs),
        cmocka_unit_test(test_jvp_options_in_pairs),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
