/*
 * Sizes of the problem from the shapes of the arrays that were given, and the
 * shapes of all others from the sizes. Knows nothing of files or devices.
 */
#ifndef CLATTN_TOOL_SHAPES_H
#define CLATTN_TOOL_SHAPES_H

#include "npy.h"
#include "options.h"

/* Sizes by axis letter (see tensors.h). */
typedef struct shapes {
    int64_t size[128];
    int64_t sequences; /* batches of the problem: B, or C - 1 when packed */
    bool seq_major;
} shapes;

/* Checks the arrays' shapes against each other. An array without data is one
 * that was not given. Prints what is wrong and returns the exit code. */
int shapes_match(shapes *sizes, const run_options *options, const npy_array arrays[CLATTN_TENSOR_COUNT]);

/* Fills the problem: sizes, options, the operation's tensors and their strides. */
void shapes_fill_problem(const shapes *sizes, const run_options *options,
                         const npy_array arrays[CLATTN_TENSOR_COUNT], clattn_problem *problem);

/* Shape of a result as its file has it; returns the rank. */
int shapes_of_result(const shapes *sizes, clattn_tensor tensor, int64_t shape[NPY_MAX_RANK]);

/* "[2,12,64,32]" */
enum {
    SHAPE_TEXT_SIZE = 192
};
void shapes_format(int rank, const int64_t *shape, char text[SHAPE_TEXT_SIZE]);

#endif /* CLATTN_TOOL_SHAPES_H */
