/* Defends the judge's verdicts, its rounding and its reading of files. Knows nothing of the library. */
#include "support/judge.h"
#include "support/npy_read.h"
#include "support/round.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof *(array)))

/* ---- Rounding ---- */

static void test_rounding_is_to_nearest_even(void **state)
{
    (void)state;
    static const struct {
        enum number_format format;
        double x, rounded;
    } roundings[] = {
        {FORMAT_F16, 1 + 0x1p-11, 1},                /* tie, even below */
        {FORMAT_F16, 1 + 3 * 0x1p-11, 1 + 0x1p-9},   /* tie, even above */
        {FORMAT_F16, 1 + 0x1.0001p-11, 1 + 0x1p-10}, /* above the tie */
        {FORMAT_F16, 2 - 0x1p-12, 2},                /* carries into the exponent */
        {FORMAT_F16, 65504, 65504},                  /* the largest */
        {FORMAT_F16, 65519.99, 65504},
        {FORMAT_F16, 65520, INFINITY},
        {FORMAT_F16, -1e300, -INFINITY},
        {FORMAT_F16, 0x1p-24, 0x1p-24}, /* the smallest subnormal */
        {FORMAT_F16, 0x1p-25, 0},       /* tie, even below */
        {FORMAT_F16, 0x1.0001p-25, 0x1p-24},
        {FORMAT_F16, 0x1.8p-24, 0x1p-23},       /* tie between subnormals */
        {FORMAT_F16, 0x1.ff8p-15, 0x1.ff8p-15}, /* the largest subnormal */
        {FORMAT_F16, 0x1.ffcp-15, 0x1p-14},     /* tie, and the smallest normal number is even */
        {FORMAT_BF16, 1 + 0x1p-8, 1},
        {FORMAT_BF16, 1 + 3 * 0x1p-8, 1 + 0x1p-6},
        {FORMAT_BF16, 65520, 65536},
        {FORMAT_BF16, 0x1.fep127, 0x1.fep127},
        {FORMAT_BF16, 0x1.ffp127, INFINITY},
        {FORMAT_BF16, 0x1p-133, 0x1p-133},
        {FORMAT_TF32, 1 + 0x1p-11, 1},
        {FORMAT_TF32, 1e30, 0x1.94p99},
        {FORMAT_F64, 0.1, 0.1},
        {FORMAT_F32, DBL_TRUE_MIN, 0},
    };
    for (int r = 0; r < COUNT_OF(roundings); r++) {
        double rounded = round_to(roundings[r].format, roundings[r].x);
        if (rounded != roundings[r].rounded)
            fail_msg("rounding %d: %a became %a, not %a", r, roundings[r].x, rounded, roundings[r].rounded);
        assert_true(round_to(roundings[r].format, -roundings[r].x) == -rounded);
    }
}

static void test_rounding_to_f32_is_the_compilers(void **state)
{
    (void)state;
    for (int exponent = -160; exponent <= 130; exponent++) {
        for (int step = 0; step < 200; step++) {
            double x = ldexp(1 + step * 0.00497, exponent);
            assert_true(round_to(FORMAT_F32, x) == (double)(float)x);
        }
    }
}

static void test_rounding_keeps_what_has_no_neighbours(void **state)
{
    (void)state;
    double values[] = {NAN, INFINITY, -INFINITY, -0.0};
    round_array(FORMAT_F16, values, COUNT_OF(values));
    assert_true(isnan(values[0]));
    assert_true(values[1] == INFINITY && values[2] == -INFINITY);
    assert_true(values[3] == 0 && signbit(values[3]));
}

/* ---- Verdicts ---- */

static void test_bars_are_the_documented_ones(void **state)
{
    (void)state;
    assert_true(judge_bar(FORMAT_F32, ORACLE_FORWARD) == 2e-6);
    assert_true(judge_bar(FORMAT_F32, ORACLE_HVP) == 1e-5);
    assert_true(judge_bar(FORMAT_F16, ORACLE_FORWARD) == 1e-3);
    assert_true(judge_bar(FORMAT_F16, ORACLE_JVP) == 2e-3);
    assert_true(judge_bar(FORMAT_BF16, ORACLE_FORWARD) == 6e-3);
    assert_true(judge_bar(FORMAT_BF16, ORACLE_VJP) == 1.5e-2);
    assert_true(judge_bar(FORMAT_TF32, ORACLE_JVP) == 1e-3);
    assert_true(judge_bar(FORMAT_F64, ORACLE_FORWARD) == 1e-12);
}

static void test_relative_error_decides(void **state)
{
    (void)state;
    const double reference[] = {3, 0, 0, 4}, ours[] = {3, 0, 0, 4.05};
    struct judge_case given = {
        .ours = ours, .reference = reference, .count = 4, .row_length = 2, .bar = 0.011};
    struct judge_verdict verdict = judge(&given);
    assert_true(verdict.passes);
    assert_true(fabs(verdict.relative - 0.01) < 1e-12);
    assert_true(fabs(verdict.max_absolute - 0.05) < 1e-12);
    given.bar = 0.009;
    assert_false(judge(&given).passes);
}

static void test_a_cancelled_reference_is_measured_by_its_terms(void **state)
{
    (void)state;
    const double reference[] = {0, 1e-9}, ours[] = {3e-6, 0};
    struct judge_case given = {
        .ours = ours, .reference = reference, .count = 2, .row_length = 1, .bar = 1e-5};
    assert_false(judge(&given).passes);
    given.size = 1;
    assert_true(judge(&given).passes);
    given.size = 1e-7; /* the reference is not below 1e-3 of it */
    assert_false(judge(&given).passes);
}

static void test_subnormal_results_are_held_to_what_storage_can_hold(void **state)
{
    (void)state;
    const double reference[] = {0x1.8p-25, 0x1p-20}, ours[] = {0x1p-24, 0x1p-20};
    struct judge_case given = {
        .ours = ours, .reference = reference, .count = 2, .row_length = 1, .bar = 1e-3};
    assert_false(judge(&given).passes);
    given.grain = 0x1p-25;
    assert_true(judge(&given).passes);
}

static void test_plain_f32_raises_the_bar_and_never_lowers_it(void **state)
{
    (void)state;
    const double reference[] = {1}, ours[] = {1.01}, plain[] = {1.004}, perfect[] = {1};
    struct judge_case given = {
        .ours = ours, .reference = reference, .count = 1, .row_length = 1, .bar = 1e-5};
    assert_false(judge(&given).passes);
    given.plain_f32 = plain;
    assert_true(judge(&given).passes);
    given.plain_f32 = perfect;
    given.bar = 0.02;
    assert_true(judge(&given).passes);
}

static void test_non_finite_rows_must_match_and_do_not_count(void **state)
{
    (void)state;
    const double reference[] = {1, 2, NAN, 4}, agrees[] = {1, 2, 7, INFINITY};
    const double missing[] = {1, 2, 7, 8}, invented[] = {1, NAN, NAN, 4};
    struct judge_case given = {
        .ours = agrees, .reference = reference, .count = 4, .row_length = 2, .bar = 1e-6};
    struct judge_verdict verdict = judge(&given);
    assert_true(verdict.passes);
    assert_true(verdict.error == 0 && verdict.bad_row == -1);
    given.ours = missing;
    verdict = judge(&given);
    assert_false(verdict.passes);
    assert_int_equal(verdict.bad_row, 1);
    given.ours = invented;
    assert_int_equal(judge(&given).bad_row, 0);
}

static void test_the_log_sum_exp_of_nothing_is_minus_infinity(void **state)
{
    (void)state;
    const double reference[] = {1, -INFINITY}, nan[] = {1, NAN};
    struct judge_case given = {
        .ours = reference, .reference = reference, .count = 2, .row_length = 1, .bar = 1e-6};
    assert_true(judge(&given).passes);
    given.ours = nan;
    assert_int_equal(judge(&given).bad_row, 1);
}

static void test_nothing_to_compare_passes(void **state)
{
    (void)state;
    struct judge_verdict verdict = judge(&(struct judge_case){.row_length = 4, .bar = 1e-6});
    assert_true(verdict.passes);
    assert_true(verdict.relative == 0);
}

/* ---- Files ---- */

/* Writes a file of the given header and int32 values under a temporary name. */
static void write_npy(const char *path, const char *header, const int32_t *values, size_t count)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    const unsigned char preamble[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)strlen(header), 0};
    fwrite(preamble, 1, sizeof preamble, file);
    fwrite(header, 1, strlen(header), file);
    fwrite(values, sizeof *values, count, file);
    fclose(file);
}

static void test_npy_files_are_read_or_refused(void **state)
{
    (void)state;
    static const char path[] = "test_judge_array.npy";
    static const char header[] = "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }\n";
    const int32_t values[] = {1, -2, 3, 4, 5, 6};
    struct npy_array array;
    write_npy(path, header, values, 6);
    assert_true(npy_read(path, &array));
    assert_int_equal(array.axes, 2);
    assert_int_equal(array.shape[1], 3);
    assert_true(array.values[1] == -2 && array.values[5] == 6);
    npy_free(&array);
    write_npy(path, header, values, 5);
    assert_false(npy_read(path, &array));
    write_npy(path, "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }\n", values, 6);
    assert_false(npy_read(path, &array));
    write_npy(path, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }\n", values, 6);
    assert_false(npy_read(path, &array));
    remove(path);
    assert_false(npy_read(path, &array));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounding_is_to_nearest_even),
        cmocka_unit_test(test_rounding_to_f32_is_the_compilers),
        cmocka_unit_test(test_rounding_keeps_what_has_no_neighbours),
        cmocka_unit_test(test_bars_are_the_documented_ones),
        cmocka_unit_test(test_relative_error_decides),
        cmocka_unit_test(test_a_cancelled_reference_is_measured_by_its_terms),
        cmocka_unit_test(test_subnormal_results_are_held_to_what_storage_can_hold),
        cmocka_unit_test(test_plain_f32_raises_the_bar_and_never_lowers_it),
        cmocka_unit_test(test_non_finite_rows_must_match_and_do_not_count),
        cmocka_unit_test(test_the_log_sum_exp_of_nothing_is_minus_infinity),
        cmocka_unit_test(test_nothing_to_compare_passes),
        cmocka_unit_test(test_npy_files_are_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
