/* Every engine with every option, alone and in pairs: hvp. */
#include "option_cases.h"

static void test_hvp_options_in_pairs(void **state)
{
    (void)state;
    options_in_pairs(CLATTN_HVP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hvp_options_in_pairs),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
