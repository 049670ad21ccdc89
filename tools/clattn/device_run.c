/*
 * One operation on one device, with a queue and buffers of its own, the way a
 * program with OpenCL of its own would do it. Knows nothing of files or options.
 */
#include "device_run.h"

#include "cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

static int opencl_failure(const char *call, cl_int error)
{
    return cli_fail("%s failed with OpenCL error %d", call, (int)error);
}

/* OpenCL has no empty buffers: one without elements gets a byte. */
static int make_buffer(device_run *run, const char *name, size_t bytes, cl_mem *memory)
{
    cl_int error;
    size_t size = bytes > 0 ? bytes : 1;
    clattn_device_info facts;
    clattn_status status = clattn_context_describe(run->context, &facts);
    if (status != CLATTN_SUCCESS)
        return cli_library_failure(status);
    if (size > facts.max_allocation)
        return cli_fail("%s: %zu bytes, expected at most %" PRIu64 ", the largest allocation of %s", name,
                        size, facts.max_allocation, facts.name);
    *memory = clCreateBuffer(clattn_context_cl(run->context), CL_MEM_READ_WRITE, size, NULL, &error);
    if (error != CL_SUCCESS)
        return cli_fail("%s: cannot make a buffer of %zu bytes on %s, which has %" PRIu64
                        " in all: OpenCL error %d",
                        name, size, facts.name, facts.global_memory, (int)error);
    run->device_bytes += size;
    return CLI_OK;
}

static int make_queue(device_run *run)
{
    cl_int error;
    cl_device_id device = clattn_context_device(run->context);
    run->queue = clCreateCommandQueue(clattn_context_cl(run->context), device, 0, &error);
    if (error != CL_SUCCESS)
        return opencl_failure("clCreateCommandQueue", error);
    error = clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof run->device, run->device, NULL);
    return error == CL_SUCCESS ? CLI_OK : opencl_failure("clGetDeviceInfo", error);
}

int device_run_open(device_run *run, const char *selector, clattn_operation operation,
                    const clattn_problem *problem)
{
    clattn_status status = clattn_context_open(selector, &run->context);
    if (status == CLATTN_SUCCESS)
        status = clattn_plan_create(run->context, operation, problem, &run->plan);
    if (status == CLATTN_SUCCESS)
        status = clattn_plan_describe(run->plan, &run->info);
    if (status != CLATTN_SUCCESS)
        return cli_library_failure(status);
    int code = make_queue(run);
    if (code == CLI_OK && run->info.workspace_bytes > 0)
        code = make_buffer(run, "workspace", (size_t)run->info.workspace_bytes, &run->workspace);
    return code;
}

int device_run_add(device_run *run, clattn_tensor tensor, const void *data, size_t bytes)
{
    cl_mem *memory = &run->buffers[tensor].memory;
    int code = make_buffer(run, clattn_tensor_name(tensor), bytes, memory);
    if (code != CLI_OK || !data || bytes == 0)
        return code;
    cl_int error = clEnqueueWriteBuffer(run->queue, *memory, CL_TRUE, 0, bytes, data, 0, NULL, NULL);
    return error == CL_SUCCESS ? CLI_OK : opencl_failure("clEnqueueWriteBuffer", error);
}

int device_run_execute(device_run *run)
{
    clattn_status status = clattn_enqueue(run->plan, run->queue, run->buffers, run->workspace, 0, NULL, NULL);
    if (status != CLATTN_SUCCESS)
        return cli_library_failure(status);
    cl_int error = clFinish(run->queue);
    return error == CL_SUCCESS ? CLI_OK : opencl_failure("clFinish", error);
}

static double milliseconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

int device_run_time(device_run *run, int64_t repeats, device_timing *timing)
{
    double *times = calloc((size_t)repeats, sizeof *times);
    if (!times)
        return cli_fail("out of memory");
    int code = CLI_OK;
    for (int64_t i = 0; i < repeats && code == CLI_OK; i++) {
        double start = milliseconds_now();
        code = device_run_execute(run);
        times[i] = milliseconds_now() - start;
    }
    qsort(times, (size_t)repeats, sizeof *times, compare_doubles);
    timing->min_ms = times[0];
    timing->median_ms = 0.5 * (times[(repeats - 1) / 2] + times[repeats / 2]);
    free(times);
    return code;
}

int device_run_count_tiles(device_run *run, clattn_tile_count *count)
{
    clattn_status status = clattn_count_tiles(run->plan, run->queue, run->buffers, count);
    return status == CLATTN_SUCCESS ? CLI_OK : cli_library_failure(status);
}

int device_run_read(device_run *run, clattn_tensor tensor, void *data, size_t bytes)
{
    if (bytes == 0)
        return CLI_OK;
    cl_mem memory = run->buffers[tensor].memory;
    cl_int error = clEnqueueReadBuffer(run->queue, memory, CL_TRUE, 0, bytes, data, 0, NULL, NULL);
    return error == CL_SUCCESS ? CLI_OK : opencl_failure("clEnqueueReadBuffer", error);
}

void device_run_close(device_run *run)
{
    for (int tensor = 0; tensor < CLATTN_TENSOR_COUNT; tensor++) {
        if (run->buffers[tensor].memory)
            clReleaseMemObject(run->buffers[tensor].memory);
    }
    if (run->workspace)
        clReleaseMemObject(run->workspace);
    if (run->queue)
        clReleaseCommandQueue(run->queue);
    clattn_plan_release(run->plan);
    clattn_context_release(run->context);
    *run = (device_run){0};
}
