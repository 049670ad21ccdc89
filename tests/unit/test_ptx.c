/*
 * Defends what happens to NVIDIA's programs between the driver's two
 * compilers: the text's changes, what a build log is read for, and the layout
 * of tensor maps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/tensor_map.h"
#include "ptx.h"

static void test_marks_targets_and_bounds_are_changed(void **state)
{
    (void)state;
    char *patched = clattn_ptx_for_sm_90a("// by the driver\n"
                                          ".version 9.0\n"
                                          ".target sm_90, texmode_independent\n"
                                          ".entry kernel()\n"
                                          ".reqntid 384, 1, 1\n"
                                          "{\n"
                                          "//@wgmma.fence.sync.aligned;\n"
                                          "ret; // stays\n"
                                          "}");
    assert_non_null(patched);
    assert_string_equal(patched, "// by the driver\n"
                                 ".version 9.0\n"
                                 ".target sm_90a, texmode_independent\n"
                                 ".entry kernel()\n"
                                 ".reqntid 384, 1, 1\n"
                                 ".minnctapersm 1\n"
                                 "{\n"
                                 "wgmma.fence.sync.aligned;\n"
                                 "ret; // stays\n"
                                 "}");
    free(patched);
}

static void test_what_is_no_ptx_for_sm_90_is_refused(void **state)
{
    (void)state;
    assert_null(clattn_ptx_for_sm_90a("\x7f"
                                      "ELF"));
    assert_null(clattn_ptx_for_sm_90a(".version 9.0\n.target sm_86\n"));
}

static void test_a_target_that_is_sm_90a_already_stays(void **state)
{
    (void)state;
    char *patched = clattn_ptx_for_sm_90a("\n.target sm_90a\n");
    assert_string_equal(patched, "\n.target sm_90a\n");
    free(patched);
}

static void test_logs_are_read_for_what_must_not_run(void **state)
{
    (void)state;
    char note[96];
    assert_false(clattn_ptx_is_sound("ptxas info : (C7507) 'setmaxnreg' ignored", note, sizeof note));
    assert_non_null(strstr(note, "C7507"));
    assert_false(clattn_ptx_is_sound("(C7510) ... extern calls", note, sizeof note));
}

static void test_logs_are_read_for_what_costs_speed(void **state)
{
    (void)state;
    char note[96];
    assert_true(clattn_ptx_is_sound("(C7512) Potential Performance Loss", note, sizeof note));
    assert_non_null(strstr(note, "C7512"));
    assert_true(
        clattn_ptx_is_sound("0 bytes spill stores\n144 bytes spill stores, 8 bytes", note, sizeof note));
    assert_string_equal(note, "144 bytes of registers are spilled");
    assert_true(
        clattn_ptx_is_sound("(C7519) warpgroup.arrive is injected\n0 bytes spill stores", note, sizeof note));
    assert_string_equal(note, "");
}

static void test_a_tensor_map_has_its_layout(void **state)
{
    (void)state;
    /* f16 [T 2, B 3, H 5, S 1000, D 40], rows 1 KiB apart, tangents 2^38 bytes; boxes of 64 x 128 */
    const struct tensor_map map = {UINT64_C(0x7f1234567880),
                                   {40, 1000, 5, 3, 2},
                                   {1024, 1024000, 5120000, UINT64_C(1) << 38},
                                   {64, 128, 1, 1, 1},
                                   TENSOR_MAP_F16};
    static const uint32_t expected[TENSOR_MAP_WORDS] = {
        0x34567880,
        0x7f12,                                  /* address */
        4u << 4 | 6u << 7 | 3u << 13 | 3u << 17, /* rank 5, f16, swizzle of 128 bytes, 256 bytes of cache */
        64,
        64000,
        320000,
        0,        /* strides >> 4, their lower 32 bits */
        4u << 12, /* their bits 36 .. 39 */
        39,
        999,
        4,
        2,
        1, /* sizes - 1 */
        63u << 24,
        127, /* boxes - 1 */
    };
    for (int n = 0; n < TENSOR_MAP_WORDS; n++)
        assert_int_equal(tensor_map_word(&map, n), expected[n]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marks_targets_and_bounds_are_changed),
        cmocka_unit_test(test_what_is_no_ptx_for_sm_90_is_refused),
        cmocka_unit_test(test_a_target_that_is_sm_90a_already_stays),
        cmocka_unit_test(test_logs_are_read_for_what_must_not_run),
        cmocka_unit_test(test_logs_are_read_for_what_costs_speed),
        cmocka_unit_test(test_a_tensor_map_has_its_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
