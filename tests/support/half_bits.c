/* Encoding of f16 and bf16 through the exponent and significand of a value that the format holds. */
#include "half_bits.h"

#include <math.h>

struct layout {
    int fraction_bits;
    int bias; /* of the exponent; also the largest finite exponent */
};

static struct layout layout_of(enum number_format format)
{
    return format == FORMAT_F16 ? (struct layout){10, 15} : (struct layout){7, 127};
}

uint16_t half_bits(enum number_format format, double value)
{
    const struct layout layout = layout_of(format);
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const uint16_t infinity = (uint16_t)((2 * layout.bias + 1) << layout.fraction_bits);
    if (isnan(value))
        return (uint16_t)(sign | infinity | 1u << (layout.fraction_bits - 1));
    const double rounded = fabs(round_to(format, value));
    if (isinf(rounded))
        return (uint16_t)(sign | infinity);
    int exponent;
    frexp(rounded, &exponent); /* rounded = 0.1xxx 2^exponent */
    const int field = rounded == 0 || exponent - 1 + layout.bias < 1 ? 0 : exponent - 1 + layout.bias;
    /* in units of the last place; the implicit 1 adds itself to the exponent field */
    const int ulp = (field ? field : 1) - layout.bias - layout.fraction_bits;
    const int significand = (int)ldexp(rounded, -ulp);
    return (uint16_t)(sign | (field ? ((field - 1) << layout.fraction_bits) + significand : significand));
}

double half_value(enum number_format format, uint16_t bits)
{
    const struct layout layout = layout_of(format);
    const int field = (bits & 0x7fff) >> layout.fraction_bits;
    const int fraction = bits & ((1 << layout.fraction_bits) - 1);
    double value;
    if (field == 2 * layout.bias + 1)
        value = fraction ? NAN : INFINITY;
    else
        value = ldexp(field ? fraction + (1 << layout.fraction_bits) : fraction,
                      (field ? field : 1) - layout.bias - layout.fraction_bits);
    return bits & 0x8000 ? -value : value;
}
