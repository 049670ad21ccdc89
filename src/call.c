/* Checks of an enqueue call's OpenCL objects. */
#include "call.h"

#include <inttypes.h>

#include "context.h"
#include "status.h"

clattn_status clattn_check_queue(const clattn_context *context, cl_command_queue queue)
{
    cl_device_id device = NULL;
    cl_context cl = NULL;
    if (!queue)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "queue: NULL, expected a cl_command_queue");
    if (clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL) != CL_SUCCESS ||
        clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof cl, &cl, NULL) != CL_SUCCESS)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "queue: not a valid cl_command_queue");
    if (device != context->device.id || cl != context->cl)
        return clattn_fail(CLATTN_INVALID_ARGUMENT,
                           "queue: of another device or cl_context than the context's");
    return CLATTN_SUCCESS;
}

clattn_status clattn_check_wait_list(cl_uint wait_count, const cl_event *wait_list)
{
    if ((wait_count == 0) != (wait_list == NULL))
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "wait_list: %s, but wait_count is %u",
                           wait_list ? "given" : "NULL", (unsigned)wait_count);
    return CLATTN_SUCCESS;
}

clattn_status clattn_check_memory(const clattn_context *context, const char *name,
                                  const clattn_buffer *buffer, uint64_t bytes)
{
    size_t size = 0;
    cl_context cl = NULL;
    if (clGetMemObjectInfo(buffer->memory, CL_MEM_SIZE, sizeof size, &size, NULL) != CL_SUCCESS ||
        clGetMemObjectInfo(buffer->memory, CL_MEM_CONTEXT, sizeof cl, &cl, NULL) != CL_SUCCESS)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: not a valid cl_mem", name);
    if (cl != context->cl)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: a cl_mem of another cl_context than the context's",
                           name);
    /* no sum of offset and bytes, which could wrap */
    if (size < bytes || size - bytes < buffer->offset)
        return clattn_fail(CLATTN_INVALID_ARGUMENT,
                           "%s: %zu bytes, expected at least %" PRIu64 " from offset %zu on", name, size,
                           bytes, buffer->offset);
    return CLATTN_SUCCESS;
}
