/*
 * A reader for the few kinds of .npy file that the tests have; the format is
 * described in NumPy's numpy.lib.format. Knows nothing of attention.
 */
#include "npy_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Magic, version 1.0 and the header's length in two bytes: what numpy.save writes. */
#define PREAMBLE_BYTES 10
#define HEADER_CAPACITY 65536

static bool read_header(FILE *file, char header[HEADER_CAPACITY])
{
    unsigned char preamble[PREAMBLE_BYTES];
    if (fread(preamble, 1, PREAMBLE_BYTES, file) != PREAMBLE_BYTES ||
        memcmp(preamble, "\x93NUMPY\x01", 7) != 0)
        return false;
    size_t length = preamble[8] | (size_t)preamble[9] << 8;
    header[length] = '\0';
    return fread(header, 1, length, file) == length;
}

/* The tuple after 'shape': "(3, 12, 96)", "(3,)" or "()". */
static bool parse_shape(const char *header, struct npy_array *array)
{
    const char *at = strstr(header, "'shape': (");
    if (!at)
        return false;
    at += strlen("'shape': (");
    array->count = 1;
    while (*at != ')') {
        char *end;
        if (array->axes == NPY_MAX_AXES)
            return false;
        int64_t length = strtoll(at, &end, 10);
        if (end == at)
            return false;
        array->shape[array->axes++] = length;
        array->count *= length;
        at = end + strspn(end, ", ");
    }
    return true;
}

/* `type` is "f4", "f8" or "i4": kind and size in bytes. */
static double element_value(const unsigned char *bytes, const char *type)
{
    float f4;
    double f8;
    int32_t i4;
    if (type[0] == 'i') {
        memcpy(&i4, bytes, sizeof i4);
        return i4;
    }
    if (type[1] == '4') {
        memcpy(&f4, bytes, sizeof f4);
        return f4;
    }
    memcpy(&f8, bytes, sizeof f8);
    return f8;
}

static bool read_values(FILE *file, const char *type, struct npy_array *array)
{
    size_t size = (size_t)(type[1] - '0');
    size_t count = (size_t)array->count;
    array->values = malloc(count * sizeof(double) + 1);
    unsigned char *bytes = malloc(count * size + 1);
    bool complete = array->values && bytes && fread(bytes, size, count, file) == count;
    for (size_t e = 0; complete && e < count; e++)
        array->values[e] = element_value(bytes + e * size, type);
    free(bytes);
    return complete;
}

static bool read_array(FILE *file, struct npy_array *array)
{
    char header[HEADER_CAPACITY];
    if (!read_header(file, header) || !strstr(header, "'fortran_order': False") ||
        !parse_shape(header, array))
        return false;
    static const char *const types[] = {"f4", "f8", "i4"};
    const char *descr = strstr(header, "'descr': '<");
    for (size_t t = 0; descr && t < sizeof types / sizeof *types; t++)
        if (strncmp(descr + strlen("'descr': '<"), types[t], 2) == 0)
            return read_values(file, types[t], array);
    return false;
}

bool npy_read(const char *path, struct npy_array *array)
{
    *array = (struct npy_array){0};
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    bool ok = read_array(file, array);
    fclose(file);
    if (!ok)
        npy_free(array);
    return ok;
}

void npy_free(struct npy_array *array)
{
    free(array->values);
    *array = (struct npy_array){0};
}
