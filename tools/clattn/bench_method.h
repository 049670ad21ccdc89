/*
 * A way to compute an operation on a device, as the benchmark sees it. Each
 * stands in a file of its own, bench_method_NAME.c.
 */
#ifndef CLATTN_TOOL_BENCH_METHOD_H
#define CLATTN_TOOL_BENCH_METHOD_H

#include "bench_case.h"
#include "bench_device.h"

/* What open() is asked for. */
typedef struct bench_job {
    bench_device *device;
    const bench_case *given;
    clattn_operation operation;
    const char *engine; /* of clattn; NULL: the library's choice */
} bench_job;

typedef struct bench_method {
    const char *name;
    /* Makes programs, buffers with the inputs, and room for everything else, so that enqueue() allocates nothing.
     * NULL and a reason when that cannot be had. */
    void *(*open)(const bench_job *job, bench_reason *reason);
    /* The whole operation on the device's queue, without waiting. */
    bool (*enqueue)(void *run, bench_reason *reason);
    /* The buffer of a result, contiguous, in the problem's type; NULL for one that the operation has not. */
    cl_mem (*result)(const void *run, clattn_tensor tensor);
    /* "cpu, 32x64"; valid as long as the run. */
    const char *(*engine)(const void *run);
    void (*close)(void *run);
} bench_method;

/* What has no quadratic memory: the library. */
extern const bench_method bench_method_clattn;
/* Every N x N matrix in memory, products by CLBlast. open() is NULL in a build without CLBlast. */
extern const bench_method bench_method_math;

#endif /* CLATTN_TOOL_BENCH_METHOD_H */
