/*
 * Results of a run: fetched from the device into arrays, and written to a
 * directory. Knows nothing of how they were computed.
 */
#ifndef CLATTN_TOOL_RESULTS_H
#define CLATTN_TOOL_RESULTS_H

#include "device_run.h"
#include "npy.h"
#include "shapes.h"

/* Each prints what is wrong and returns the exit code. */

/* Makes the device buffer of every result of the problem. */
int results_prepare(device_run *device, const shapes *sizes, const clattn_problem *problem);

/* Fills results[t] for every result, as float32 or float64; the others stay
 * as they are, all zero. Also after a failure they are to be freed. */
int results_fetch(device_run *device, const shapes *sizes, const clattn_problem *problem,
                  npy_array results[CLATTN_TENSOR_COUNT]);

/* Files of results on their way; starts all zero. */
typedef struct results_files {
    char *paths[CLATTN_TENSOR_COUNT];
    npy_staged staged[CLATTN_TENSOR_COUNT];
} results_files;

/* Writes each result to a temporary file beside DIRECTORY/NAME.npy; makes the
 * directory, and those above it, if missing. */
int results_stage(const char *directory, const npy_array results[CLATTN_TENSOR_COUNT], results_files *files);

/* Moves them to their names. */
int results_commit(results_files *files);

/* Removes what was staged and not committed. */
void results_discard(results_files *files);

#endif /* CLATTN_TOOL_RESULTS_H */
