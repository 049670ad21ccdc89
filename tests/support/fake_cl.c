/*
 * The linker's --wrap=NAME sends calls of NAME to __wrap_NAME, and those of
 * __real_NAME to NAME itself. One macro for each kind of call makes the pair,
 * so that the lists below are all there is to say about most functions.
 */
#include "fake_cl.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Calls may come from several threads. */
static atomic_int calls_to_failure, allocations_to_failure; /* 0: none is to fail */
static cl_int failure;
static const char *_Atomic failed;
static atomic_int objects, blocks;
static atomic_int buffer_count;
static atomic_size_t buffer_bytes, largest_buffer;
static const struct fake_cl_device *fake_devices;
static int fake_device_count;

void fake_cl_reset(void)
{
    calls_to_failure = allocations_to_failure = 0;
    failed = NULL;
    objects = blocks = 0;
    buffer_count = 0;
    buffer_bytes = largest_buffer = 0;
}

void fake_cl_fail_call(int n, cl_int error)
{
    failure = error;
    calls_to_failure = n;
}

void fake_cl_fail_allocation(int n) { allocations_to_failure = n; }

const char *fake_cl_failed(void) { return failed; }

int fake_cl_objects(void) { return objects; }

int fake_cl_blocks(void) { return blocks; }

struct fake_cl_buffers fake_cl_buffers(void)
{
    return (struct fake_cl_buffers){buffer_count, buffer_bytes, largest_buffer};
}

void fake_cl_set_devices(const struct fake_cl_device *devices, int count)
{
    fake_devices = devices;
    fake_device_count = count;
}

/* True for the call that is to fail. */
static bool fails(atomic_int *left, const char *name)
{
    if (*left == 0 || atomic_fetch_sub(left, 1) != 1)
        return false;
    failed = name;
    return true;
}

static cl_int counted(cl_int error, int change)
{
    if (error == CL_SUCCESS)
        objects += change;
    return error;
}

#define WRAP(type, name, parameters)                                                                         \
    type __real_##name parameters;                                                                           \
    type __wrap_##name parameters;                                                                           \
    type __wrap_##name parameters

/* Returns an error code and makes nothing. */
#define PLAIN_CALL(name, parameters, arguments)                                                              \
    WRAP(cl_int, name, parameters)                                                                           \
    {                                                                                                        \
        return fails(&calls_to_failure, #name) ? failure : __real_##name arguments;                          \
    }

/* Returns an error code, and an event if the caller asks for one. */
#define EVENT_CALL(name, parameters, arguments)                                                              \
    WRAP(cl_int, name, parameters)                                                                           \
    {                                                                                                        \
        return fails(&calls_to_failure, #name) ? failure : counted(__real_##name arguments, event ? 1 : 0);  \
    }

/* Returns an object. */
#define MAKING_CALL(type, name, parameters, arguments)                                                       \
    WRAP(type, name, parameters)                                                                             \
    {                                                                                                        \
        if (fails(&calls_to_failure, #name)) {                                                               \
            if (error)                                                                                       \
                *error = failure;                                                                            \
            return NULL;                                                                                     \
        }                                                                                                    \
        const type made = __real_##name arguments;                                                           \
        objects += made ? 1 : 0;                                                                             \
        return made;                                                                                         \
    }

#define RETAIN_CALL(name, type)                                                                              \
    WRAP(cl_int, name, (type object))                                                                        \
    {                                                                                                        \
        return fails(&calls_to_failure, #name) ? failure : counted(__real_##name(object), 1);                \
    }

#define RELEASE_CALL(name, type)                                                                             \
    WRAP(cl_int, name, (type object)) { return counted(__real_##name(object), -1); }

/* ---- objects ---- */

typedef void CL_CALLBACK context_callback(const char *, const void *, size_t, void *);
typedef void CL_CALLBACK build_callback(cl_program, void *);

MAKING_CALL(cl_context, clCreateContext,
            (const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
             context_callback *notify, void *user, cl_int *error),
            (properties, count, devices, notify, user, error))
MAKING_CALL(cl_command_queue, clCreateCommandQueue,
            (cl_context context, cl_device_id device, cl_command_queue_properties properties, cl_int *error),
            (context, device, properties, error))
MAKING_CALL(cl_program, clCreateProgramWithSource,
            (cl_context context, cl_uint count, const char **texts, const size_t *lengths, cl_int *error),
            (context, count, texts, lengths, error))
MAKING_CALL(cl_program, clCreateProgramWithBinary,
            (cl_context context, cl_uint count, const cl_device_id *devices, const size_t *lengths,
             const unsigned char **binaries, cl_int *statuses, cl_int *error),
            (context, count, devices, lengths, binaries, statuses, error))
MAKING_CALL(cl_kernel, clCreateKernel, (cl_program program, const char *kernel, cl_int *error),
            (program, kernel, error))

static cl_mem count_buffer(cl_mem made, size_t size)
{
    if (!made)
        return NULL;
    objects++;
    buffer_count++;
    buffer_bytes += size;
    if (size > largest_buffer)
        largest_buffer = size;
    return made;
}

WRAP(cl_mem, clCreateBuffer, (cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *error))
{
    if (!fails(&calls_to_failure, "clCreateBuffer"))
        return count_buffer(__real_clCreateBuffer(context, flags, size, host, error), size);
    if (error)
        *error = failure;
    return NULL;
}

RETAIN_CALL(clRetainContext, cl_context)
RETAIN_CALL(clRetainCommandQueue, cl_command_queue)
RETAIN_CALL(clRetainMemObject, cl_mem)
RETAIN_CALL(clRetainProgram, cl_program)
RETAIN_CALL(clRetainKernel, cl_kernel)
RETAIN_CALL(clRetainEvent, cl_event)

RELEASE_CALL(clReleaseContext, cl_context)
RELEASE_CALL(clReleaseCommandQueue, cl_command_queue)
RELEASE_CALL(clReleaseMemObject, cl_mem)
RELEASE_CALL(clReleaseProgram, cl_program)
RELEASE_CALL(clReleaseKernel, cl_kernel)
RELEASE_CALL(clReleaseEvent, cl_event)

/* ---- calls that make nothing ---- */

PLAIN_CALL(clGetContextInfo,
           (cl_context context, cl_context_info what, size_t size, void *value, size_t *needed),
           (context, what, size, value, needed))
PLAIN_CALL(clGetCommandQueueInfo,
           (cl_command_queue queue, cl_command_queue_info what, size_t size, void *value, size_t *needed),
           (queue, what, size, value, needed))
PLAIN_CALL(clGetMemObjectInfo, (cl_mem memory, cl_mem_info what, size_t size, void *value, size_t *needed),
           (memory, what, size, value, needed))
PLAIN_CALL(clGetEventInfo, (cl_event event, cl_event_info what, size_t size, void *value, size_t *needed),
           (event, what, size, value, needed))
PLAIN_CALL(clBuildProgram,
           (cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
            build_callback *notify, void *user),
           (program, count, devices, options, notify, user))
PLAIN_CALL(clGetProgramInfo,
           (cl_program program, cl_program_info what, size_t size, void *value, size_t *needed),
           (program, what, size, value, needed))
PLAIN_CALL(clGetProgramBuildInfo,
           (cl_program program, cl_device_id device, cl_program_build_info what, size_t size, void *value,
            size_t *needed),
           (program, device, what, size, value, needed))
PLAIN_CALL(clSetKernelArg, (cl_kernel kernel, cl_uint index, size_t size, const void *value),
           (kernel, index, size, value))
PLAIN_CALL(clGetKernelWorkGroupInfo,
           (cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what, size_t size, void *value,
            size_t *needed),
           (kernel, device, what, size, value, needed))
PLAIN_CALL(clFlush, (cl_command_queue queue), (queue))
PLAIN_CALL(clFinish, (cl_command_queue queue), (queue))
PLAIN_CALL(clWaitForEvents, (cl_uint count, const cl_event *events), (count, events))

/* ---- commands ---- */

EVENT_CALL(clEnqueueNDRangeKernel,
           (cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
            const size_t *global, const size_t *local, cl_uint wait_count, const cl_event *wait_list,
            cl_event *event),
           (queue, kernel, dims, offset, global, local, wait_count, wait_list, event))
EVENT_CALL(clEnqueueMarkerWithWaitList,
           (cl_command_queue queue, cl_uint wait_count, const cl_event *wait_list, cl_event *event),
           (queue, wait_count, wait_list, event))
EVENT_CALL(clEnqueueBarrierWithWaitList,
           (cl_command_queue queue, cl_uint wait_count, const cl_event *wait_list, cl_event *event),
           (queue, wait_count, wait_list, event))
EVENT_CALL(clEnqueueReadBuffer,
           (cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t size, void *host,
            cl_uint wait_count, const cl_event *wait_list, cl_event *event),
           (queue, memory, blocking, offset, size, host, wait_count, wait_list, event))
EVENT_CALL(clEnqueueWriteBuffer,
           (cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t size,
            const void *host, cl_uint wait_count, const cl_event *wait_list, cl_event *event),
           (queue, memory, blocking, offset, size, host, wait_count, wait_list, event))
EVENT_CALL(clEnqueueCopyBuffer,
           (cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset, size_t size,
            cl_uint wait_count, const cl_event *wait_list, cl_event *event),
           (queue, from, to, from_offset, to_offset, size, wait_count, wait_list, event))
EVENT_CALL(clEnqueueFillBuffer,
           (cl_command_queue queue, cl_mem memory, const void *pattern, size_t pattern_size, size_t offset,
            size_t size, cl_uint wait_count, const cl_event *wait_list, cl_event *event),
           (queue, memory, pattern, pattern_size, offset, size, wait_count, wait_list, event))

WRAP(void *, clEnqueueMapBuffer,
     (cl_command_queue queue, cl_mem memory, cl_bool blocking, cl_map_flags flags, size_t offset, size_t size,
      cl_uint wait_count, const cl_event *wait_list, cl_event *event, cl_int *error))
{
    if (fails(&calls_to_failure, "clEnqueueMapBuffer")) {
        if (error)
            *error = failure;
        return NULL;
    }
    void *mapped = __real_clEnqueueMapBuffer(queue, memory, blocking, flags, offset, size, wait_count,
                                             wait_list, event, error);
    objects += mapped && event ? 1 : 0;
    return mapped;
}
EVENT_CALL(clEnqueueUnmapMemObject,
           (cl_command_queue queue, cl_mem memory, void *mapped, cl_uint wait_count,
            const cl_event *wait_list, cl_event *event),
           (queue, memory, mapped, wait_count, wait_list, event))

/* ---- platforms and devices, real or invented ---- */

/* The platform of invented devices. */
static char fake_platform;
#define FAKE_PLATFORM ((cl_platform_id)(void *)&fake_platform)

WRAP(cl_int, clGetPlatformIDs, (cl_uint capacity, cl_platform_id *platforms, cl_uint *count))
{
    if (fails(&calls_to_failure, "clGetPlatformIDs"))
        return failure;
    if (fake_device_count == 0)
        return __real_clGetPlatformIDs(capacity, platforms, count);
    if (platforms && capacity > 0)
        platforms[0] = FAKE_PLATFORM;
    if (count)
        *count = 1;
    return CL_SUCCESS;
}

WRAP(cl_int, clGetDeviceIDs,
     (cl_platform_id platform, cl_device_type type, cl_uint capacity, cl_device_id *devices, cl_uint *count))
{
    if (fails(&calls_to_failure, "clGetDeviceIDs"))
        return failure;
    if (platform != FAKE_PLATFORM)
        return __real_clGetDeviceIDs(platform, type, capacity, devices, count);
    for (cl_uint i = 0; devices && i < capacity && i < (cl_uint)fake_device_count; i++)
        devices[i] = (cl_device_id)(void *)&fake_devices[i];
    if (count)
        *count = (cl_uint)fake_device_count;
    return CL_SUCCESS;
}

/* A fact of a device or platform, as clGet...Info give it. */
static cl_int give(const void *fact, size_t fact_size, size_t size, void *value, size_t *needed)
{
    if (needed)
        *needed = fact_size;
    if (value && size < fact_size)
        return CL_INVALID_VALUE;
    if (value)
        memcpy(value, fact, fact_size);
    return CL_SUCCESS;
}

WRAP(cl_int, clGetPlatformInfo,
     (cl_platform_id platform, cl_platform_info what, size_t size, void *value, size_t *needed))
{
    if (fails(&calls_to_failure, "clGetPlatformInfo"))
        return failure;
    if (platform == FAKE_PLATFORM)
        return give("fake", sizeof "fake", size, value, needed);
    return __real_clGetPlatformInfo(platform, what, size, value, needed);
}

static cl_int describe(const struct fake_cl_device *device, cl_device_info what, size_t size, void *value,
                       size_t *needed)
{
    const cl_platform_id platform = FAKE_PLATFORM;
    const cl_uint units = 1;
    const cl_ulong bytes = 1 << 30;
    const size_t group = 256;
    switch (what) {
    case CL_DEVICE_PLATFORM:
        return give(&platform, sizeof platform, size, value, needed);
    case CL_DEVICE_TYPE:
        return give(&device->type, sizeof device->type, size, value, needed);
    case CL_DEVICE_NAME:
        return give(device->name, strlen(device->name) + 1, size, value, needed);
    case CL_DEVICE_EXTENSIONS:
        return give(device->extensions, strlen(device->extensions) + 1, size, value, needed);
    case CL_DRIVER_VERSION:
    case CL_DEVICE_VERSION:
        return give("1.2", sizeof "1.2", size, value, needed);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
        return give(&units, sizeof units, size, value, needed);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        return give(&group, sizeof group, size, value, needed);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
    case CL_DEVICE_LOCAL_MEM_SIZE:
        return give(&bytes, sizeof bytes, size, value, needed);
    default:
        return CL_INVALID_VALUE;
    }
}

static int vector_width;

void fake_cl_set_vector_width(int floats) { vector_width = floats; }

WRAP(cl_int, clGetDeviceInfo,
     (cl_device_id device, cl_device_info what, size_t size, void *value, size_t *needed))
{
    if (fails(&calls_to_failure, "clGetDeviceInfo"))
        return failure;
    for (int i = 0; i < fake_device_count; i++)
        if ((const void *)device == &fake_devices[i])
            return describe(&fake_devices[i], what, size, value, needed);
    const cl_uint floats = (cl_uint)vector_width;
    if (floats && what == CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT)
        return give(&floats, sizeof floats, size, value, needed);
    return __real_clGetDeviceInfo(device, what, size, value, needed);
}

/* ---- the heap ---- */

WRAP(void *, malloc, (size_t size))
{
    void *block = fails(&allocations_to_failure, "malloc") ? NULL : __real_malloc(size);
    blocks += block ? 1 : 0;
    return block;
}

WRAP(void *, calloc, (size_t count, size_t size))
{
    void *block = fails(&allocations_to_failure, "calloc") ? NULL : __real_calloc(count, size);
    blocks += block ? 1 : 0;
    return block;
}

WRAP(void *, realloc, (void *old, size_t size))
{
    void *block = fails(&allocations_to_failure, "realloc") ? NULL : __real_realloc(old, size);
    blocks += block && !old ? 1 : 0;
    return block;
}

WRAP(void, free, (void *block))
{
    blocks -= block ? 1 : 0;
    __real_free(block);
}
