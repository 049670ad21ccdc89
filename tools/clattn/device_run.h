/*
 * One operation on one device: context, queue, buffers, plan, launch, clock.
 * Knows nothing of files or options.
 */
#ifndef CLATTN_TOOL_DEVICE_RUN_H
#define CLATTN_TOOL_DEVICE_RUN_H

#include <clattn/clattn.h>

typedef struct device_run {
    clattn_context *context;
    clattn_plan *plan;
    clattn_plan_info info;
    cl_command_queue queue;
    clattn_buffer buffers[CLATTN_TENSOR_COUNT];
    cl_mem workspace;
    uint64_t device_bytes; /* of all buffers that were made, workspace included */
    char device[256];      /* the device's name */
} device_run;

typedef struct device_timing {
    double median_ms;
    double min_ms;
} device_timing;

/* Each prints what is wrong and returns the exit code. A device_run starts all
 * zero and is to be closed also after a failure. */

/* Opens the device, makes the queue, the plan and the workspace. */
int device_run_open(device_run *run, const char *selector, clattn_operation operation,
                    const clattn_problem *problem);

/* Makes the buffer of a tensor and fills it with `bytes` of `data`, if not NULL. */
int device_run_add(device_run *run, clattn_tensor tensor, const void *data, size_t bytes);

/* Computes and waits. */
int device_run_execute(device_run *run);

/* Computes `repeats` more times; wall clock from enqueue to finish. */
int device_run_time(device_run *run, int64_t repeats, device_timing *timing);

/* Counts the tiles that the forward pass visits and skips. */
int device_run_count_tiles(device_run *run, clattn_tile_count *count);

int device_run_read(device_run *run, clattn_tensor tensor, void *data, size_t bytes);

void device_run_close(device_run *run);

#endif /* CLATTN_TOOL_DEVICE_RUN_H */
