/*
 * Conversions between double and f16, bf16, f32. Works on the bits of the
 * double, so that there is one rounding, not two through f32. Knows nothing of
 * files or devices.
 */
#include "convert.h"

#include <math.h>
#include <string.h>

/* A 16-bit format: sign, exponent, fraction. */
typedef struct small_float {
    int exponent_bits;
    int fraction_bits;
} small_float;

static const small_float F16 = {5, 10};
static const small_float BF16 = {8, 7};

enum {
    DOUBLE_BIAS = 1023,
    DOUBLE_FRACTION_BITS = 52,
    DOUBLE_EXPONENT_MAX = 0x7ff
};
#define DOUBLE_FRACTION_MASK ((UINT64_C(1) << DOUBLE_FRACTION_BITS) - 1)

static int small_bias(small_float format) { return (1 << (format.exponent_bits - 1)) - 1; }

static int small_exponent_max(small_float format) { return (1 << format.exponent_bits) - 1; }

/* Drops `shift` low bits, 1 <= shift <= 53, to nearest, ties to even. */
static uint64_t shift_right_rounding(uint64_t value, int shift)
{
    uint64_t kept = value >> shift;
    uint64_t dropped = value & ((UINT64_C(1) << shift) - 1);
    uint64_t half = UINT64_C(1) << (shift - 1);
    bool up = dropped > half || (dropped == half && (kept & 1));
    return kept + up;
}

/* Magnitude of a finite double; exponent and fraction are its bit fields. */
static uint64_t finite_to_small(int exponent, uint64_t fraction, small_float format)
{
    uint64_t infinity = (uint64_t)small_exponent_max(format) << format.fraction_bits;
    int small_exponent = exponent - DOUBLE_BIAS + small_bias(format);
    int shift = DOUBLE_FRACTION_BITS - format.fraction_bits;
    if (exponent == 0)
        return 0; /* 0 or a subnormal double: far below half of any small subnormal */
    if (small_exponent >= small_exponent_max(format))
        return infinity;
    if (small_exponent < 1) {
        shift += 1 - small_exponent;
        small_exponent = 1;
    }
    if (shift > DOUBLE_FRACTION_BITS + 1)
        return 0; /* below half of the smallest subnormal */
    uint64_t significand = fraction | (UINT64_C(1) << DOUBLE_FRACTION_BITS);
    uint64_t rounded = shift_right_rounding(significand, shift);
    /* The leading one, where there is one, adds 1 to the exponent field; so does a carry out of the
     * fraction, up to infinity. */
    return ((uint64_t)(small_exponent - 1) << format.fraction_bits) + rounded;
}

static uint16_t double_to_small(double value, small_float format)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    int exponent = (int)(bits >> DOUBLE_FRACTION_BITS) & DOUBLE_EXPONENT_MAX;
    uint64_t fraction = bits & DOUBLE_FRACTION_MASK;
    uint64_t magnitude;
    if (exponent == DOUBLE_EXPONENT_MAX) {
        uint64_t quiet = fraction ? UINT64_C(1) << (format.fraction_bits - 1) : 0;
        uint64_t payload = fraction >> (DOUBLE_FRACTION_BITS - format.fraction_bits);
        magnitude = ((uint64_t)small_exponent_max(format) << format.fraction_bits) | quiet | payload;
    } else {
        magnitude = finite_to_small(exponent, fraction, format);
    }
    return (uint16_t)(bits >> 63 << 15 | magnitude);
}

static double small_to_double(uint16_t bits, small_float format)
{
    int exponent = bits >> format.fraction_bits & small_exponent_max(format);
    int fraction = bits & ((1 << format.fraction_bits) - 1);
    double magnitude;
    if (exponent == small_exponent_max(format))
        magnitude = fraction ? NAN : INFINITY;
    else if (exponent == 0)
        magnitude = ldexp(fraction, 1 - small_bias(format) - format.fraction_bits);
    else
        magnitude = ldexp(fraction + (1 << format.fraction_bits),
                          exponent - small_bias(format) - format.fraction_bits);
    return bits >> 15 ? -magnitude : magnitude;
}

uint16_t convert_double_to_f16(double value) { return double_to_small(value, F16); }

uint16_t convert_double_to_bf16(double value) { return double_to_small(value, BF16); }

double convert_f16_to_double(uint16_t bits) { return small_to_double(bits, F16); }

double convert_bf16_to_double(uint16_t bits) { return small_to_double(bits, BF16); }

size_t convert_size(clattn_dtype dtype)
{
    switch (dtype) {
    case CLATTN_F64:
        return sizeof(double);
    case CLATTN_F32:
        return sizeof(float);
    default:
        return sizeof(uint16_t);
    }
}

double convert_load(const void *array, clattn_dtype dtype, size_t index)
{
    switch (dtype) {
    case CLATTN_F64:
        return ((const double *)array)[index];
    case CLATTN_F32:
        return ((const float *)array)[index];
    case CLATTN_F16:
        return convert_f16_to_double(((const uint16_t *)array)[index]);
    default:
        return convert_bf16_to_double(((const uint16_t *)array)[index]);
    }
}

void convert_store(void *array, clattn_dtype dtype, size_t index, double value)
{
    switch (dtype) {
    case CLATTN_F64:
        ((double *)array)[index] = value;
        break;
    case CLATTN_F32:
        ((float *)array)[index] = (float)value; /* IEEE 754: to nearest even, infinity beyond the range */
        break;
    case CLATTN_F16:
        ((uint16_t *)array)[index] = convert_double_to_f16(value);
        break;
    default:
        ((uint16_t *)array)[index] = convert_double_to_bf16(value);
        break;
    }
}

double convert_round(double value, clattn_dtype dtype)
{
    union {
        double f64;
        float f32;
        uint16_t bits16;
    } element;
    convert_store(&element, dtype, 0, value);
    return convert_load(&element, dtype, 0);
}
