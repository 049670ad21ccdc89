/*
 * The device that a benchmark runs on, and an account of its buffers.
 */
#include "bench_device.h"

#include "cli.h"

#include <inttypes.h>
#include <stdarg.h>

bool bench_refuse(bench_reason *reason, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason->text, sizeof reason->text, format, arguments);
    va_end(arguments);
    return false;
}

int bench_device_open(const char *selector, bench_device *device)
{
    clattn_status status = clattn_context_open(selector, &device->context);
    if (status == CLATTN_SUCCESS)
        status = clattn_context_describe(device->context, &device->facts);
    if (status != CLATTN_SUCCESS)
        return cli_library_failure(status);
    cl_int error;
    device->queue = clCreateCommandQueue(clattn_context_cl(device->context), device->facts.id,
                                         CL_QUEUE_PROFILING_ENABLE, &error);
    return error == CL_SUCCESS ? CLI_OK
                               : cli_fail("clCreateCommandQueue failed with OpenCL error %d", (int)error);
}

void bench_device_close(bench_device *device)
{
    if (device->queue)
        clReleaseCommandQueue(device->queue);
    clattn_context_release(device->context);
    *device = (bench_device){0};
}

/* Drivers find out at the first launch that memory is short, and some end the process then: so it is counted here. */
static bool fits(const bench_device *device, const char *name, uint64_t bytes, bench_reason *reason)
{
    const clattn_device_info *facts = &device->facts;
    if (bytes > facts->max_allocation)
        return bench_refuse(reason, "%s: %" PRIu64 " MB, the device allocates at most %" PRIu64 " at once",
                            name, bytes >> 20, facts->max_allocation >> 20);
    if (device->live + bytes > facts->global_memory)
        return bench_refuse(reason, "%s: %" PRIu64 " MB beside %" PRIu64 " in use, the device has %" PRIu64,
                            name, bytes >> 20, device->live >> 20, facts->global_memory >> 20);
    return true;
}

cl_mem bench_device_buffer(bench_device *device, const char *name, size_t bytes, const void *data,
                           bench_reason *reason)
{
    if (!fits(device, name, bytes, reason))
        return NULL;
    cl_int error;
    cl_mem memory =
        clCreateBuffer(clattn_context_cl(device->context), CL_MEM_READ_WRITE, bytes, NULL, &error);
    if (error == CL_SUCCESS && data)
        error = clEnqueueWriteBuffer(device->queue, memory, CL_TRUE, 0, bytes, data, 0, NULL, NULL);
    if (error != CL_SUCCESS) {
        bench_refuse(reason, "%s: no buffer of %zu MB: OpenCL error %d", name, bytes >> 20, (int)error);
        if (memory)
            clReleaseMemObject(memory);
        return NULL;
    }
    device->live += bytes;
    if (device->live > device->peak)
        device->peak = device->live;
    return memory;
}

void bench_device_free(bench_device *device, cl_mem memory)
{
    size_t bytes = 0;
    if (!memory)
        return;
    clGetMemObjectInfo(memory, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    device->live -= bytes;
    clReleaseMemObject(memory);
}

void bench_device_forget_peak(bench_device *device) { device->peak = device->live; }
