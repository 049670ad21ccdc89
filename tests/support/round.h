/*
 * Rounding to the number formats that the library computes in, by arithmetic
 * on bits: independent of the library and of the compiler's conversions.
 */
#ifndef ROUND_H
#define ROUND_H

#include <stdint.h>

enum number_format {
    FORMAT_F64,
    FORMAT_F32,
    FORMAT_TF32,
    FORMAT_F16,
    FORMAT_BF16
};

/* The value of the format nearest to x, ties to even. Beyond the format's
 * range it is infinite, below its normal numbers subnormal; infinities, zeros
 * (with their sign) and NaN stay. */
double round_to(enum number_format format, double x);

/* Rounds `count` values in place. */
void round_array(enum number_format format, double *values, int64_t count);

#endif /* ROUND_H */
