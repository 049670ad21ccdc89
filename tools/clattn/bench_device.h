/*
 * The device that a benchmark runs on: context, queue, and the buffers that
 * methods make, counted. Knows nothing of methods.
 */
#ifndef CLATTN_TOOL_BENCH_DEVICE_H
#define CLATTN_TOOL_BENCH_DEVICE_H

#include <clattn/clattn.h>

typedef struct bench_device {
    clattn_context *context;
    clattn_device_info facts;
    cl_command_queue queue; /* in order, with profiling */
    uint64_t live, peak;    /* bytes of buffers now, and the most since bench_device_forget_peak */
} bench_device;

/* Why a method cannot run a case: what its row says. */
enum {
    BENCH_REASON_SIZE = 256
};
typedef struct bench_reason {
    char text[BENCH_REASON_SIZE];
} bench_reason;

/* Fills *reason and returns false. */
bool bench_refuse(bench_reason *reason, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints what is wrong and returns the exit code. Starts all zero, and is to be closed also after a failure. */
int bench_device_open(const char *selector, bench_device *device);
void bench_device_close(bench_device *device);

/* A buffer filled with `data`, if not NULL; NULL and a reason when it does not fit. */
cl_mem bench_device_buffer(bench_device *device, const char *name, size_t bytes, const void *data,
                           bench_reason *reason);
/* NULL is allowed. */
void bench_device_free(bench_device *device, cl_mem memory);

void bench_device_forget_peak(bench_device *device);

#endif /* CLATTN_TOOL_BENCH_DEVICE_H */
