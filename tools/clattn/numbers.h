/*
 * Numbers as users type them: the whole text must be one number in range.
 * Knows nothing of options.
 */
#ifndef CLATTN_TOOL_NUMBERS_H
#define CLATTN_TOOL_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

/* Each returns false, and leaves *value alone, for anything but one number:
 * NaN, infinity, trailing text, leading blanks, and what is out of range. */
bool parse_double(const char *text, double *value);
bool parse_int64(const char *text, int64_t *value);
bool parse_uint64(const char *text, uint64_t *value);

/* "A,B" */
bool parse_int64_pair(const char *text, int64_t *first, int64_t *second);

#endif /* CLATTN_TOOL_NUMBERS_H */
