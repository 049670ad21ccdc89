/* Rounding by arithmetic on the bits of a double. Knows nothing of arrays' meaning. */
#include "round.h"

#include <math.h>
#include <string.h>

#define DOUBLE_FRACTION_BITS 52
#define DOUBLE_EXPONENT_BIAS 1023

struct format {
    int significand_bits; /* the implicit one included */
    int min_exponent;     /* of the smallest normal number, 2^min_exponent */
    int max_exponent;     /* of the largest number, below 2^(max_exponent + 1) */
};

/* FORMAT_F64 is what values come in and needs no entry. */
static const struct format formats[] = {
    [FORMAT_F32] = {24, -126, 127},
    [FORMAT_TF32] = {11, -126, 127},
    [FORMAT_F16] = {11, -14, 15},
    [FORMAT_BF16] = {8, -126, 127},
};

/* significand / 2^drop to the nearest integer, ties to even; drop >= 1 */
static uint64_t shift_to_nearest(uint64_t significand, int drop)
{
    if (drop > DOUBLE_FRACTION_BITS + 1)
        return 0; /* less than half */
    uint64_t kept = significand >> drop;
    uint64_t rest = significand & ((UINT64_C(1) << drop) - 1);
    uint64_t half = UINT64_C(1) << (drop - 1);
    return kept + (rest > half || (rest == half && (kept & 1)));
}

double round_to(enum number_format format, double x)
{
    if (format == FORMAT_F64 || !isfinite(x) || x == 0)
        return x;
    struct format to = formats[format];
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int biased = (int)(bits >> DOUBLE_FRACTION_BITS & 0x7FF);
    if (biased == 0)
        return copysign(0.0, x); /* a subnormal double: far below every smaller format */

    /* x = significand 2^(exponent - 52) */
    int exponent = biased - DOUBLE_EXPONENT_BIAS;
    uint64_t implicit_one = UINT64_C(1) << DOUBLE_FRACTION_BITS;
    uint64_t significand = (bits & (implicit_one - 1)) | implicit_one;
    int drop = DOUBLE_FRACTION_BITS + 1 - to.significand_bits;
    if (exponent < to.min_exponent)
        drop += to.min_exponent - exponent;
    double rounded =
        ldexp((double)shift_to_nearest(significand, drop), exponent - DOUBLE_FRACTION_BITS + drop);
    if (rounded >= ldexp(1.0, to.max_exponent + 1))
        rounded = INFINITY;
    return copysign(rounded, x);
}

void round_array(enum number_format format, double *values, int64_t count)
{
    for (int64_t e = 0; e < count; e++)
        values[e] = round_to(format, values[e]);
}
