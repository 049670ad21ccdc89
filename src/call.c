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

clattn_status clattn_check_wait_list(const clattn_context *context, cl_uint wait_count,
                                     const cl_event *wait_list)
{
    if ((wait_count == 0) != (wait_list == NULL))
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "wait_list: %s, but wait_count is %u",
                           wait_list ? "given" : "NULL", (unsigned)wait_count);
    for (cl_uint i = 0; i < wait_count; i++) {
        cl_context cl = NULL;
        if (!wait_list[i])
            return clattn_fail(CLATTN_INVALID_ARGUMENT, "wait_list: entry %u is NULL, expected a cl_event",
                               (unsigned)i);
        if (clGetEventInfo(wait_list[i], CL_EVENT_CONTEXT, sizeof cl, &cl, NULL) != CL_SUCCESS)
            return clattn_fail(CLATTN_INVALID_ARGUMENT, "wait_list: entry %u is not a valid cl_event",
                               (unsigned)i);
        if (cl != context->cl)
            return clattn_fail(CLATTN_INVALID_ARGUMENT,
                               "wait_list: entry %u is of another cl_context than the context's",
                               (unsigned)i);
    }
    return CLATTN_SUCCESS;
}

static const char *memory_kind(cl_mem_object_type type)
{
    switch (type) {
    case CL_MEM_OBJECT_IMAGE1D:
    case CL_MEM_OBJECT_IMAGE1D_ARRAY:
    case CL_MEM_OBJECT_IMAGE1D_BUFFER:
    case CL_MEM_OBJECT_IMAGE2D:
    case CL_MEM_OBJECT_IMAGE2D_ARRAY:
    case CL_MEM_OBJECT_IMAGE3D:
        return "an image";
    default:
        return "a memory object of another kind";
    }
}

/* That it is a buffer, and one that kernels may use as they will. */
static clattn_status check_kind(const struct clattn_place *place)
{
    cl_mem_object_type type = 0;
    cl_mem_flags flags = 0;
    if (clGetMemObjectInfo(place->buffer.memory, CL_MEM_TYPE, sizeof type, &type, NULL) != CL_SUCCESS ||
        clGetMemObjectInfo(place->buffer.memory, CL_MEM_FLAGS, sizeof flags, &flags, NULL) != CL_SUCCESS)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: not a valid cl_mem", place->name);
    if (type != CL_MEM_OBJECT_BUFFER)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: %s, expected a buffer", place->name,
                           memory_kind(type));
    if (place->written && (flags & CL_MEM_READ_ONLY))
        return clattn_fail(CLATTN_INVALID_ARGUMENT,
                           "%s: a CL_MEM_READ_ONLY buffer, expected one that kernels may write", place->name);
    if (place->read && (flags & CL_MEM_WRITE_ONLY))
        return clattn_fail(CLATTN_INVALID_ARGUMENT,
                           "%s: a CL_MEM_WRITE_ONLY buffer, expected one that kernels may read", place->name);
    return CLATTN_SUCCESS;
}

clattn_status clattn_check_memory(const clattn_context *context, const struct clattn_place *place)
{
    const clattn_buffer *buffer = &place->buffer;
    size_t size = 0;
    cl_context cl = NULL;
    if (clGetMemObjectInfo(buffer->memory, CL_MEM_SIZE, sizeof size, &size, NULL) != CL_SUCCESS ||
        clGetMemObjectInfo(buffer->memory, CL_MEM_CONTEXT, sizeof cl, &cl, NULL) != CL_SUCCESS)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: not a valid cl_mem", place->name);
    if (cl != context->cl)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: a cl_mem of another cl_context than the context's",
                           place->name);
    CLATTN_TRY(check_kind(place));
    /* no sum of offset and bytes, which could wrap */
    if (size < place->bytes || size - place->bytes < buffer->offset)
        return clattn_fail(CLATTN_INVALID_ARGUMENT,
                           "%s: %zu bytes, expected at least %" PRIu64 " from offset %zu on", place->name,
                           size, place->bytes, buffer->offset);
    return CLATTN_SUCCESS;
}

/* Bytes of a memory object, from the first to before the end. */
struct span {
    uint64_t first, end;
};

static struct span whole_of(const struct clattn_place *place)
{
    return (struct span){place->buffer.offset, place->buffer.offset + place->bytes};
}

static bool share(struct span a, struct span b) { return a.first < b.end && b.first < a.end; }

/* Whether `span` holds a byte of the first or last element of a place. */
static bool holds_an_end(struct span span, const struct clattn_place *place)
{
    const struct span whole = whole_of(place);
    return share(span, (struct span){whole.first, whole.first + place->element}) ||
           share(span, (struct span){whole.end - place->element, whole.end});
}

bool clattn_places_overlap(const struct clattn_place *a, const struct clattn_place *b)
{
    if (a->buffer.memory != b->buffer.memory)
        return false;
    const struct span span_a = whole_of(a), span_b = whole_of(b);
    const struct span first_a = {span_a.first, span_a.first + a->element};
    const struct span last_a = {span_a.end - a->element, span_a.end};
    return (a->dense && holds_an_end(span_a, b)) || (b->dense && holds_an_end(span_b, a)) ||
           holds_an_end(first_a, b) || holds_an_end(last_a, b);
}

clattn_status clattn_check_apart(const struct clattn_place *places, int count)
{
    for (int i = 1; i < count; i++)
        for (int j = 0; j < i; j++) {
            const struct clattn_place *late = &places[i], *early = &places[j];
            if ((!late->written && !early->written) || !clattn_places_overlap(late, early))
                continue;
            const struct span a = whole_of(late), b = whole_of(early);
            return clattn_fail(CLATTN_INVALID_ARGUMENT,
                               "%s: bytes %" PRIu64 " .. %" PRIu64 " of the cl_mem that holds %s in %" PRIu64
                               " .. %" PRIu64 ", expected no overlap of what is written",
                               late->name, a.first, a.end - 1, early->name, b.first, b.end - 1);
        }
    return CLATTN_SUCCESS;
}
