/* The 16 bits of f16 and bf16 values; independent of the library and of the compiler's half types. */
#ifndef HALF_BITS_H
#define HALF_BITS_H

#include <stdint.h>

#include "round.h"

/* Rounds to the format (FORMAT_F16 or FORMAT_BF16) and gives its bits. */
uint16_t half_bits(enum number_format format, double value);

/* The value of 16 bits. */
double half_value(enum number_format format, uint16_t bits);

#endif /* HALF_BITS_H */
