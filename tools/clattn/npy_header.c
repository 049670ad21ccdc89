/*
 * The text header of a .npy file, parsed strictly: what NumPy writes, in any
 * order and spacing, and nothing else. Knows nothing of files.
 */
#include "npy_header.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const NPY_DESCRS[NPY_TYPE_COUNT] = {
    [NPY_F16] = "<f2", [NPY_F32] = "<f4", [NPY_F64] = "<f8", [NPY_BOOL] = "|b1",
    [NPY_U8] = "|u1",  [NPY_I32] = "<i4", [NPY_I64] = "<i8",
};

typedef struct scanner {
    const char *at;
    const char *end;
    npy_error *error;
} scanner;

/* A piece of the header text. */
typedef struct span {
    const char *start;
    int length;
} span;

static bool span_is(span piece, const char *text)
{
    return (size_t)piece.length == strlen(text) && memcmp(piece.start, text, (size_t)piece.length) == 0;
}

static bool refuse(scanner *scan, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool refuse(scanner *scan, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(scan->error->text, sizeof scan->error->text, format, arguments);
    va_end(arguments);
    /* What the file holds is quoted, and must not break the line or command the terminal. */
    for (char *character = scan->error->text; *character; character++) {
        if (*character < ' ' || *character > '~')
            *character = '?';
    }
    return false;
}

static void skip_blanks(scanner *scan)
{
    while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\n'))
        scan->at++;
}

/* Takes `character` if it is next. */
static bool take(scanner *scan, char character)
{
    skip_blanks(scan);
    if (scan->at == scan->end || *scan->at != character)
        return false;
    scan->at++;
    return true;
}

static bool expect(scanner *scan, char character, const char *where)
{
    return take(scan, character) || refuse(scan, "malformed header: expected '%c' %s", character, where);
}

static bool scan_string(scanner *scan, span *string)
{
    skip_blanks(scan);
    if (scan->at == scan->end || (*scan->at != '\'' && *scan->at != '"'))
        return false;
    char quote = *scan->at++;
    const char *close = memchr(scan->at, quote, (size_t)(scan->end - scan->at));
    if (!close)
        return false;
    *string = (span){scan->at, (int)(close - scan->at)};
    scan->at = close + 1;
    return true;
}

static bool scan_descr(scanner *scan, npy_array *array)
{
    span descr;
    if (!scan_string(scan, &descr))
        return refuse(scan, "malformed header: expected 'descr' to be one type as a string");
    for (int type = 0; type < NPY_TYPE_COUNT; type++) {
        if (span_is(descr, NPY_DESCRS[type])) {
            array->type = (npy_type)type;
            return true;
        }
    }
    int shown = descr.length > 40 ? 40 : descr.length;
    if (descr.length > 0 && descr.start[0] == '>')
        return refuse(scan, "type '%.*s' is big endian, expected little endian", shown, descr.start);
    return refuse(scan, "type '%.*s', expected one of <f2 <f4 <f8 |b1 |u1 <i4 <i8", shown, descr.start);
}

static bool scan_fortran_order(scanner *scan)
{
    skip_blanks(scan);
    const char *start = scan->at;
    while (scan->at < scan->end && isalpha((unsigned char)*scan->at))
        scan->at++;
    span word = {start, (int)(scan->at - start)};
    if (span_is(word, "True"))
        return refuse(scan, "fortran_order is True, expected C order (numpy.ascontiguousarray makes it)");
    return span_is(word, "False") ||
           refuse(scan, "malformed header: expected 'fortran_order' to be False or True");
}

static bool scan_axis(scanner *scan, int64_t *size)
{
    skip_blanks(scan);
    const char *start = scan->at;
    int64_t value = 0;
    for (; scan->at < scan->end && isdigit((unsigned char)*scan->at); scan->at++) {
        int digit = *scan->at - '0';
        if (value > (INT64_MAX - digit) / 10)
            return refuse(scan, "an axis of the shape is beyond 64 bits");
        value = value * 10 + digit;
    }
    *size = value;
    return scan->at > start || refuse(scan, "malformed header: expected 'shape' to be a tuple of sizes >= 0");
}

static bool scan_shape(scanner *scan, npy_array *array)
{
    if (!expect(scan, '(', "at the start of 'shape'"))
        return false;
    array->rank = 0;
    bool comma = true;
    while (!take(scan, ')')) {
        if (!comma)
            return refuse(scan, "malformed header: expected ',' or ')' in 'shape'");
        if (array->rank == NPY_MAX_RANK)
            return refuse(scan, "more than %d axes", NPY_MAX_RANK);
        if (!scan_axis(scan, &array->shape[array->rank++]))
            return false;
        comma = take(scan, ',');
    }
    if (array->rank == 1 && !comma)
        return refuse(scan, "malformed header: expected 'shape' to be a tuple, such as (3,)");
    return true;
}

enum {
    KEY_DESCR = 1,
    KEY_FORTRAN_ORDER = 2,
    KEY_SHAPE = 4,
    KEYS_ALL = 7
};

static int key_bit(span key)
{
    if (span_is(key, "descr"))
        return KEY_DESCR;
    if (span_is(key, "fortran_order"))
        return KEY_FORTRAN_ORDER;
    return span_is(key, "shape") ? KEY_SHAPE : 0;
}

static bool scan_entry(scanner *scan, npy_array *array, int *seen)
{
    span key;
    if (!scan_string(scan, &key))
        return refuse(scan, "malformed header: expected a key in quotes");
    int bit = key_bit(key);
    if (bit == 0 || (*seen & bit))
        return refuse(scan, "malformed header: %s key '%.*s'", bit ? "repeated" : "unknown",
                      key.length > 40 ? 40 : key.length, key.start);
    *seen |= bit;
    if (!expect(scan, ':', "after a key"))
        return false;
    if (bit == KEY_DESCR)
        return scan_descr(scan, array);
    return bit == KEY_SHAPE ? scan_shape(scan, array) : scan_fortran_order(scan);
}

bool npy_header_parse(const char *text, size_t length, npy_array *array, npy_error *error)
{
    scanner scan = {text, text + length, error};
    int seen = 0;
    bool comma = true;
    if (!expect(&scan, '{', "at the start"))
        return false;
    while (!take(&scan, '}')) {
        if (!comma)
            return refuse(&scan, "malformed header: expected ',' or '}' after a value");
        if (!scan_entry(&scan, array, &seen))
            return false;
        comma = take(&scan, ',');
    }
    if (seen != KEYS_ALL)
        return refuse(&scan, "malformed header: expected the keys descr, fortran_order and shape");
    skip_blanks(&scan);
    return scan.at == scan.end || refuse(&scan, "malformed header: text after the closing '}'");
}

int npy_header_format(const npy_array *array, char text[NPY_HEADER_TEXT_SIZE])
{
    int length = snprintf(text, NPY_HEADER_TEXT_SIZE, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                          NPY_DESCRS[array->type]);
    for (int axis = 0; axis < array->rank; axis++) {
        const char *separator = axis == 0 ? "" : " ";
        length += snprintf(text + length, NPY_HEADER_TEXT_SIZE - (size_t)length, "%s%" PRId64 ",", separator,
                           array->shape[axis]);
    }
    return length + snprintf(text + length, NPY_HEADER_TEXT_SIZE - (size_t)length, "), }");
}

bool npy_shape_count(int rank, const int64_t *shape, size_t element_size, size_t *count)
{
    uint64_t product = 1;
    bool empty = false;
    for (int axis = 0; axis < rank; axis++) {
        empty = empty || shape[axis] == 0;
        uint64_t size = shape[axis] == 0 ? 1 : (uint64_t)shape[axis];
        if (product > (uint64_t)PTRDIFF_MAX / element_size / size)
            return false;
        product *= size;
    }
    *count = empty ? 0 : (size_t)product;
    return true;
}
