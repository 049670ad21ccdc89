/*
 * The arrays that the user gives: read, checked, and put into the form that
 * the device takes. Knows nothing of OpenCL calls.
 */
#ifndef CLATTN_TOOL_INPUTS_H
#define CLATTN_TOOL_INPUTS_H

#include "npy.h"
#include "options.h"

/* Each prints what is wrong and returns the exit code. */

/* Reads the file of every tensor option; arrays must be all zero before. Also
 * after a failure they are to be freed. */
int inputs_read(const run_options *options, npy_array arrays[CLATTN_TENSOR_COUNT]);

/* Checks the values that a kernel takes as positions: kv lengths, cu_seqlens, and the
 * kinds of a block mask; names the first bad entry. */
int inputs_check_values(const clattn_problem *problem, const npy_array arrays[CLATTN_TENSOR_COUNT]);

/* Reads the snippet of --logit; *text is to be freed. */
int inputs_read_logit(const char *path, char **text);

/* A copy of an input in its type on the device, to be freed; NULL when out of memory. */
void *inputs_device_copy(const clattn_problem *problem, clattn_tensor tensor, const npy_array *array,
                         size_t *bytes);

/* The element type of a floating-point file. */
clattn_dtype inputs_file_dtype(npy_type type);

#endif /* CLATTN_TOOL_INPUTS_H */
