/*
 * Reads .npy files for the tests: little-endian float32, float64 and int32
 * arrays in C order, as doubles. Independent of the command's own reader.
 */
#ifndef NPY_READ_H
#define NPY_READ_H

#include <stdbool.h>
#include <stdint.h>

#define NPY_MAX_AXES 8

struct npy_array {
    int axes;
    int64_t shape[NPY_MAX_AXES];
    int64_t count;  /* elements */
    double *values; /* [count], C order */
};

/* False, with *array zeroed, for a file that is missing, cut short or of
 * another kind. Give *array to npy_free. */
bool npy_read(const char *path, struct npy_array *array);

void npy_free(struct npy_array *array);

#endif /* NPY_READ_H */
