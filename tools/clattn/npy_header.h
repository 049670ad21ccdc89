/*
 * The text header of a .npy file: a Python dict literal with the keys descr,
 * fortran_order and shape. Between npy.c and npy_header.c only.
 */
#ifndef CLATTN_TOOL_NPY_HEADER_H
#define CLATTN_TOOL_NPY_HEADER_H

#include "npy.h"

/* Parses `length` characters of header text into type, rank and shape. On
 * failure writes what is wrong (without the file's name) to *error. */
bool npy_header_parse(const char *text, size_t length, npy_array *array, npy_error *error);

/* Room for the text of any header that npy_header_format writes. */
enum {
    NPY_HEADER_TEXT_SIZE = 320
};

/* Writes the dict literal, without padding, and returns its length. */
int npy_header_format(const npy_array *array, char text[NPY_HEADER_TEXT_SIZE]);

/* Elements of a shape; false if a product of axes (those of size 0 left out)
 * times `element_size` leaves what an object's size can be. */
bool npy_shape_count(int rank, const int64_t *shape, size_t element_size, size_t *count);

/* The entries that `descr` may have, in the order of npy_type. */
extern const char *const NPY_DESCRS[NPY_TYPE_COUNT];

#endif /* CLATTN_TOOL_NPY_HEADER_H */
