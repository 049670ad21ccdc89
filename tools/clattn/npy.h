/*
 * Arrays in .npy files (format versions 1.0, 2.0, 3.0), little endian, C order
 * only: fortran_order True is refused, as are big-endian and structured types.
 * Knows nothing of attention.
 */
#ifndef CLATTN_TOOL_NPY_H
#define CLATTN_TOOL_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum npy_type {
    NPY_F16,  /* <f2 */
    NPY_F32,  /* <f4 */
    NPY_F64,  /* <f8 */
    NPY_BOOL, /* |b1 */
    NPY_U8,   /* |u1 */
    NPY_I32,  /* <i4 */
    NPY_I64,  /* <i8 */
    NPY_TYPE_COUNT
} npy_type;

enum {
    NPY_MAX_RANK = 8,
    NPY_ERROR_SIZE = 512
};

/* An array in C order. Owns data, which is never NULL in an array that was
 * read or allocated, even one without elements. */
typedef struct npy_array {
    npy_type type;
    int rank; /* 0: one element without axes */
    int64_t shape[NPY_MAX_RANK];
    void *data;
} npy_array;

/* One line: the file, what is wrong with it, what was expected. */
typedef struct npy_error {
    char text[NPY_ERROR_SIZE];
} npy_error;

/* "float16", "bool", ...: the names NumPy gives them. */
const char *npy_type_name(npy_type type);
size_t npy_type_size(npy_type type);

/* Elements of an array: 1 for rank 0. */
size_t npy_count(const npy_array *array);

/* Room for shape[0..rank-1], filled with zeros. False if its bytes cannot be
 * counted or had. To be freed by npy_release. */
bool npy_allocate(npy_array *array, npy_type type, int rank, const int64_t *shape);

/* Frees the data and clears the array; one that was never filled is fine if it is all zero. */
void npy_release(npy_array *array);

/* Reads a regular file. On failure *array is all zero. */
bool npy_load(const char *path, npy_array *array, npy_error *error);

/* Writing in two steps, so that several files appear together or not at all:
 * stage writes everything to a temporary file beside `path`, commit moves it
 * there, discard removes it. `path` must live until then. */
typedef struct npy_staged {
    const char *path;
    char *temporary;
} npy_staged;

bool npy_stage(const char *path, const npy_array *array, npy_staged *staged, npy_error *error);
bool npy_commit(npy_staged *staged, npy_error *error);
void npy_discard(npy_staged *staged);

/* Stage and commit. */
bool npy_save(const char *path, const npy_array *array, npy_error *error);

#endif /* CLATTN_TOOL_NPY_H */
