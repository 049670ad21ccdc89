/* Contexts: made on the caller's OpenCL context or on one of their own. */
#include "context.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "device.h"
#include "status.h"

static clattn_status check_device_in_context(cl_context cl, cl_device_id device)
{
    cl_device_id devices[64];
    size_t bytes = 0;
    CLATTN_TRY(clattn_from_cl(clGetContextInfo(cl, CL_CONTEXT_DEVICES, sizeof devices, devices, &bytes),
                              "clGetContextInfo"));
    for (size_t i = 0; i < bytes / sizeof *devices; i++)
        if (devices[i] == device)
            return CLATTN_SUCCESS;
    return clattn_fail(CLATTN_INVALID_ARGUMENT, "device: %p, expected a device of the cl_context",
                       (void *)device);
}

clattn_status clattn_context_create(cl_context cl, cl_device_id device, clattn_context **context)
{
    if (!context)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "context: NULL, expected where to put the context");
    *context = NULL;
    if (!cl)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "cl: NULL, expected a cl_context");
    if (!device)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "device: NULL, expected a cl_device_id");
    CLATTN_TRY(check_device_in_context(cl, device));
    clattn_context *made = calloc(1, sizeof *made);
    if (!made)
        return clattn_fail(CLATTN_OUT_OF_MEMORY, "host memory for a context");
    clattn_status status = clattn_device_read(device, &made->device);
    if (status == CLATTN_SUCCESS)
        status = clattn_from_cl(clRetainContext(cl), "clRetainContext");
    if (status != CLATTN_SUCCESS) {
        free(made);
        return status;
    }
    made->cl = cl;
    clattn_program_store_init(&made->programs);
    *context = made;
    return CLATTN_SUCCESS;
}

clattn_status clattn_context_open(const char *selector, clattn_context **context)
{
    if (!context)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "context: NULL, expected where to put the context");
    *context = NULL;
    clattn_device_info info;
    CLATTN_TRY(clattn_device_find(selector, &info));
    cl_int error;
    cl_context cl = clCreateContext(NULL, 1, &info.id, NULL, NULL, &error);
    CLATTN_TRY(clattn_from_cl(error, "clCreateContext"));
    const clattn_status status = clattn_context_create(cl, info.id, context);
    clReleaseContext(cl);
    return status;
}

void clattn_context_release(clattn_context *context)
{
    if (!context)
        return;
    clattn_program_store_clear(&context->programs);
    clReleaseContext(context->cl);
    free(context);
}

cl_context clattn_context_cl(const clattn_context *context) { return context ? context->cl : NULL; }

cl_device_id clattn_context_device(const clattn_context *context)
{
    return context ? context->device.id : NULL;
}

clattn_status clattn_context_describe(const clattn_context *context, clattn_device_info *info)
{
    if (!context || !info)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: NULL", context ? "info" : "context");
    *info = context->device;
    return CLATTN_SUCCESS;
}

int clattn_context_programs_built(const clattn_context *context)
{
    return context ? clattn_program_store_built(&context->programs) : 0;
}

clattn_status clattn_check_allocation(const clattn_context *context, const char *name, uint64_t bytes)
{
    if (bytes <= context->device.max_allocation)
        return CLATTN_SUCCESS;
    return clattn_fail(CLATTN_OUT_OF_MEMORY,
                       "%s: %" PRIu64 " bytes, expected at most %" PRIu64 ", the largest allocation of %s",
                       name, bytes, context->device.max_allocation, context->device.name);
}

clattn_status clattn_create_buffer(const clattn_context *context, const char *name, cl_mem_flags flags,
                                   uint64_t bytes, void *host, cl_mem *memory)
{
    *memory = NULL;
    CLATTN_TRY(clattn_check_allocation(context, name, bytes));
    cl_int error;
    *memory =
        clCreateBuffer(context->cl, flags | (host ? CL_MEM_COPY_HOST_PTR : 0), (size_t)bytes, host, &error);
    char call[256];
    snprintf(call, sizeof call,
             "%s: clCreateBuffer of %" PRIu64 " bytes on %.100s, which has %" PRIu64 " in all", name, bytes,
             context->device.name, context->device.global_memory);
    return clattn_from_cl(error, call);
}
