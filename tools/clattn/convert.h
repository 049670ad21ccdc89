/*
 * Conversions between double and the element types of tensors: rounding to
 * nearest, ties to even; overflow to infinity; subnormals kept; NaN stays NaN
 * (quiet). Knows nothing of files or devices.
 */
#ifndef CLATTN_TOOL_CONVERT_H
#define CLATTN_TOOL_CONVERT_H

#include <clattn/clattn.h>

uint16_t convert_double_to_f16(double value);
uint16_t convert_double_to_bf16(double value);
double convert_f16_to_double(uint16_t bits);
double convert_bf16_to_double(uint16_t bits);

/* Bytes of one element. */
size_t convert_size(clattn_dtype dtype);

/* Element `index` of an array of `dtype`. */
double convert_load(const void *array, clattn_dtype dtype, size_t index);
void convert_store(void *array, clattn_dtype dtype, size_t index, double value);

/* The value after a round trip through `dtype`. */
double convert_round(double value, clattn_dtype dtype);

#endif /* CLATTN_TOOL_CONVERT_H */
