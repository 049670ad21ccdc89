/*
 * Numbers as users type them. Knows nothing of options.
 */
#include "numbers.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* strto* skip leading blanks; a user's number has none. */
static bool starts_well(const char *text) { return text[0] != '\0' && !isspace((unsigned char)text[0]); }

bool parse_double(const char *text, double *value)
{
    char *end;
    errno = 0;
    double parsed = strtod(text, &end);
    bool vanished = errno == ERANGE && parsed == 0;
    if (!starts_well(text) || end == text || *end != '\0' || !isfinite(parsed) || vanished)
        return false;
    *value = parsed;
    return true;
}

static bool parse_int64_until(const char *text, char stop, int64_t *value, const char **rest)
{
    char *end;
    errno = 0;
    long long parsed = strtoll(text, &end, 10);
    if (!starts_well(text) || end == text || *end != stop || errno == ERANGE)
        return false;
    *value = parsed;
    *rest = end;
    return true;
}

bool parse_int64(const char *text, int64_t *value)
{
    const char *rest;
    return parse_int64_until(text, '\0', value, &rest);
}

bool parse_uint64(const char *text, uint64_t *value)
{
    /* strtoull would take "-1" for the largest number. */
    if (!isdigit((unsigned char)text[0]))
        return false;
    char *end;
    errno = 0;
    unsigned long long parsed = strtoull(text, &end, 10);
    if (*end != '\0' || errno == ERANGE)
        return false;
    *value = parsed;
    return true;
}

bool parse_int64_pair(const char *text, int64_t *first, int64_t *second)
{
    int64_t a, b;
    const char *rest;
    if (!parse_int64_until(text, ',', &a, &rest) || !parse_int64(rest + 1, &b))
        return false;
    *first = a;
    *second = b;
    return true;
}
