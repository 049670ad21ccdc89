/*
 * The command's conversions between double and f16, bf16, f32. The formats
 * are small enough to try every value and every midpoint.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

/* The command is no library: its file is compiled into the test. */
#include "../../tools/clattn/convert.c"

typedef struct format {
    uint16_t (*from_double)(double value);
    double (*to_double)(uint16_t bits);
    uint16_t infinity; /* also the number of finite magnitudes */
    uint16_t quiet;    /* the quiet bit of a NaN */
} format;

static const format FORMATS[] = {
    {convert_double_to_f16, convert_f16_to_double, 0x7c00, 0x0200},
    {convert_double_to_bf16, convert_bf16_to_double, 0x7f80, 0x0040},
};

static void for_each_format(void (*check)(const format *tried))
{
    for (size_t i = 0; i < sizeof FORMATS / sizeof FORMATS[0]; i++)
        check(&FORMATS[i]);
}

static void check_every_pattern(const format *tried)
{
    for (uint32_t bits = 0; bits <= 0xffff; bits++) {
        uint16_t magnitude = bits & 0x7fff;
        double value = tried->to_double((uint16_t)bits);
        uint16_t back = tried->from_double(value);
        if (magnitude > tried->infinity) {
            assert_true(isnan(value));
            assert_int_equal(back & tried->infinity, tried->infinity);
            assert_int_equal(back & tried->quiet, tried->quiet);
        } else {
            assert_int_equal(back, bits);
        }
    }
}

static void test_every_pattern_survives_a_round_trip(void **state)
{
    (void)state;
    for_each_format(check_every_pattern);
}

static void check_increasing(const format *tried)
{
    for (uint16_t bits = 0; bits < tried->infinity; bits++)
        assert_true(tried->to_double(bits) < tried->to_double((uint16_t)(bits + 1)));
}

static void test_values_grow_with_their_bits(void **state)
{
    (void)state;
    for_each_format(check_increasing);
}

static void check_midpoint(const format *tried, uint16_t below)
{
    uint16_t above = (uint16_t)(below + 1), even = below & 1 ? above : below;
    double low = tried->to_double(below);
    /* Beyond the largest value the next one would be 2 ulp over its predecessor. */
    double high = above == tried->infinity ? 2 * low - tried->to_double((uint16_t)(below - 1))
                                           : tried->to_double(above);
    double middle = low + (high - low) / 2;
    assert_int_equal(tried->from_double(middle), even);
    assert_int_equal(tried->from_double(nextafter(middle, 0)), below);
    assert_int_equal(tried->from_double(nextafter(middle, INFINITY)), above);
    assert_int_equal(tried->from_double(-middle), even | 0x8000);
}

static void check_midpoints(const format *tried)
{
    for (uint16_t bits = 0; bits < tried->infinity; bits++)
        check_midpoint(tried, bits);
}

static void test_every_midpoint_goes_to_even_and_its_neighbours_to_the_nearest(void **state)
{
    (void)state;
    for_each_format(check_midpoints);
}

static void test_known_values_of_f16(void **state)
{
    (void)state;
    assert_int_equal(convert_double_to_f16(1), 0x3c00);
    assert_int_equal(convert_double_to_f16(-2), 0xc000);
    assert_int_equal(convert_double_to_f16(65504), 0x7bff);
    assert_int_equal(convert_double_to_f16(65519.99), 0x7bff);
    assert_int_equal(convert_double_to_f16(65520), 0x7c00);
    assert_int_equal(convert_double_to_f16(0x1p-24), 0x0001);
    assert_int_equal(convert_double_to_f16(0x1p-25), 0x0000);
    assert_int_equal(convert_double_to_f16(0x1.8p-24), 0x0002);
    assert_int_equal(convert_double_to_f16(0x1p-14), 0x0400);
    assert_int_equal(convert_double_to_f16(0.1), 0x2e66);
}

static void test_known_values_of_bf16(void **state)
{
    (void)state;
    assert_int_equal(convert_double_to_bf16(1), 0x3f80);
    assert_int_equal(convert_double_to_bf16(-2), 0xc000);
    assert_int_equal(convert_double_to_bf16(3.140625), 0x4049);
    assert_int_equal(convert_double_to_bf16(0x1.fep127), 0x7f7f);
    assert_int_equal(convert_double_to_bf16(0x1.ffp127), 0x7f80);
    assert_int_equal(convert_double_to_bf16(0x1p-133), 0x0001);
    assert_int_equal(convert_double_to_bf16(0x1p-134), 0x0000);
    assert_int_equal(convert_double_to_bf16(0x1p-126), 0x0080);
}

static void check_extremes(const format *tried)
{
    assert_int_equal(tried->from_double(0.0), 0);
    assert_int_equal(tried->from_double(-0.0), 0x8000);
    assert_int_equal(tried->from_double(INFINITY), tried->infinity);
    assert_int_equal(tried->from_double(-INFINITY), tried->infinity | 0x8000);
    assert_int_equal(tried->from_double(1e308), tried->infinity);
    assert_int_equal(tried->from_double(-1e308), tried->infinity | 0x8000);
    assert_int_equal(tried->from_double(0x1p-1022), 0);
    assert_int_equal(tried->from_double(-0x1p-1074), 0x8000);
    assert_true(isnan(tried->to_double(tried->from_double(NAN))));
}

static void test_zeros_infinities_nan_and_what_is_far_out_of_range(void **state)
{
    (void)state;
    for_each_format(check_extremes);
}

/* The payload of this NaN is below the bits that 16 bits keep: cut off, it would read as infinity. */
static void test_nan_with_a_low_payload_stays_nan(void **state)
{
    (void)state;
    const uint64_t bits = UINT64_C(0x7ff0000000000001);
    double value;
    memcpy(&value, &bits, sizeof value);
    assert_int_equal(convert_double_to_f16(value), 0x7e00);
    assert_int_equal(convert_double_to_bf16(value), 0x7fc0);
}

/* Through f32 this would be a tie, and go to even: 1. */
static void test_rounding_happens_once(void **state)
{
    (void)state;
    assert_int_equal(convert_double_to_f16(1 + 0x1p-11 + 0x1p-40), 0x3c01);
    assert_int_equal(convert_double_to_bf16(1 + 0x1p-8 + 0x1p-40), 0x3f81);
}

static void test_f32_rounds_to_even_and_overflows_to_infinity(void **state)
{
    (void)state;
    assert_true(convert_round(1 + 0x1p-24, CLATTN_F32) == 1);
    assert_true(convert_round(1 + 0x1.8p-23, CLATTN_F32) == 1 + 0x1p-22);
    assert_true(convert_round(0x1.fffffep127, CLATTN_F32) == 0x1.fffffep127);
    assert_true(convert_round(0x1.ffffffp127, CLATTN_F32) == INFINITY);
    assert_true(convert_round(0x1p-149, CLATTN_F32) == 0x1p-149);
    assert_true(convert_round(0x1p-150, CLATTN_F32) == 0);
    assert_true(isnan(convert_round(NAN, CLATTN_F32)));
}

static void test_arrays_of_every_dtype_load_what_was_stored(void **state)
{
    (void)state;
    static const double values[] = {0, -1.5, 0.25, 448, -INFINITY};
    enum {
        COUNT = sizeof values / sizeof values[0]
    };
    static const size_t sizes[CLATTN_DTYPE_COUNT] = {
        [CLATTN_F32] = 4, [CLATTN_F16] = 2, [CLATTN_BF16] = 2, [CLATTN_F64] = 8};
    for (int dtype = 0; dtype < CLATTN_DTYPE_COUNT; dtype++) {
        double array[COUNT]; /* room for any of them */
        assert_int_equal(convert_size((clattn_dtype)dtype), sizes[dtype]);
        for (size_t i = 0; i < COUNT; i++)
            convert_store(array, (clattn_dtype)dtype, i, values[i]);
        for (size_t i = 0; i < COUNT; i++)
            assert_true(convert_load(array, (clattn_dtype)dtype, i) == values[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pattern_survives_a_round_trip),
        cmocka_unit_test(test_values_grow_with_their_bits),
        cmocka_unit_test(test_every_midpoint_goes_to_even_and_its_neighbours_to_the_nearest),
        cmocka_unit_test(test_known_values_of_f16),
        cmocka_unit_test(test_known_values_of_bf16),
        cmocka_unit_test(test_zeros_infinities_nan_and_what_is_far_out_of_range),
        cmocka_unit_test(test_nan_with_a_low_payload_stays_nan),
        cmocka_unit_test(test_rounding_happens_once),
        cmocka_unit_test(test_f32_rounds_to_even_and_overflows_to_infinity),
        cmocka_unit_test(test_arrays_of_every_dtype_load_what_was_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
