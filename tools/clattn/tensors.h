/*
 * What the command knows of each tensor: its axes and its element types, in
 * files and on the device. Knows nothing of the command line.
 */
#ifndef CLATTN_TOOL_TENSORS_H
#define CLATTN_TOOL_TENSORS_H

#include "npy.h"

#include <clattn/clattn.h>

/* Axes of a tensor, a letter each, in logical order:
 *
 *   T  tangents (a leading axis that the files have or have not)
 *   B  batches, 1 when packed    H  query heads     G  key/value heads
 *   M  queries                   N  keys            D  head dim          E  head dim of values
 *   C  sequences + 1             X, Y  blocks of queries and of keys
 *   b h m n      the same sizes, or 1 to broadcast
 *   0 1 2 3      the axes of the bias as it was given
 *
 * NULL: any shape. */
const char *tensor_axes(clattn_tensor tensor);

/* True for tensors with a head dim: the ones whose axes --layout orders. */
bool tensor_has_layout(clattn_tensor tensor);

/* True for an array that a user may give. */
bool tensor_is_input(clattn_tensor tensor);

/* True for a result that the operation has, given what is present. */
bool tensor_is_result(const clattn_problem *problem, clattn_operation operation, clattn_tensor tensor);

/* Element types of a tensor in files. */
bool tensor_accepts(clattn_tensor tensor, npy_type type);
/* ... in words: "float16, float32 or float64" */
const char *tensor_accepted_types(clattn_tensor tensor);

/* True for floating-point tensors; *dtype is then the type on the device. */
bool tensor_real_dtype(const clattn_problem *problem, clattn_tensor tensor, clattn_dtype *dtype);

/* True for int32 tensors. */
bool tensor_is_integer(clattn_tensor tensor);

/* "DIRECTORY/NAME.npy", to be freed; NULL when out of memory. */
char *tensor_path(const char *directory, clattn_tensor tensor);

#endif /* CLATTN_TOOL_TENSORS_H */
