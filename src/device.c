/* OpenCL devices: facts, the list of all, and finding one by name or index. */
#include "device.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"

static clattn_status read_text(cl_device_id device, cl_device_info what, char *text, size_t size)
{
    size_t length = 0;
    CLATTN_TRY(clattn_from_cl(clGetDeviceInfo(device, what, 0, NULL, &length), "clGetDeviceInfo"));
    char *whole = malloc(length + 1);
    if (!whole)
        return clattn_fail(CLATTN_OUT_OF_MEMORY, "host memory for a device's name");
    const cl_int error = clGetDeviceInfo(device, what, length, whole, NULL);
    whole[length] = 0;
    const size_t kept = strlen(whole) < size ? strlen(whole) : size - 1;
    memcpy(text, whole, kept);
    text[kept] = 0;
    free(whole);
    return clattn_from_cl(error, "clGetDeviceInfo");
}

static bool has_word(const char *words, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = strstr(words, word); at; at = strstr(at + 1, word))
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == 0))
            return true;
    return false;
}

#define READ(what, variable)                                                                                 \
    CLATTN_TRY(clattn_from_cl(clGetDeviceInfo(device, what, sizeof(variable), &(variable), NULL),            \
                              "clGetDeviceInfo"))

/* cl_nv_device_attribute_query */
#define COMPUTE_CAPABILITY_MAJOR_NV 0x4000
#define COMPUTE_CAPABILITY_MINOR_NV 0x4001

static clattn_status read_capability(cl_device_id device, int *capability)
{
    cl_uint major, minor;
    READ(COMPUTE_CAPABILITY_MAJOR_NV, major);
    READ(COMPUTE_CAPABILITY_MINOR_NV, minor);
    *capability = (int)(10 * major + minor);
    return CLATTN_SUCCESS;
}

clattn_status clattn_device_read(cl_device_id device, clattn_device_info *info)
{
    *info = (clattn_device_info){.id = device};
    cl_platform_id platform;
    cl_device_type type;
    cl_uint units, vector;
    cl_ulong global, allocation, local;
    size_t group;
    READ(CL_DEVICE_PLATFORM, platform);
    READ(CL_DEVICE_TYPE, type);
    READ(CL_DEVICE_MAX_COMPUTE_UNITS, units);
    READ(CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, vector);
    READ(CL_DEVICE_GLOBAL_MEM_SIZE, global);
    READ(CL_DEVICE_MAX_MEM_ALLOC_SIZE, allocation);
    READ(CL_DEVICE_LOCAL_MEM_SIZE, local);
    READ(CL_DEVICE_MAX_WORK_GROUP_SIZE, group);
    CLATTN_TRY(read_text(device, CL_DEVICE_NAME, info->name, sizeof info->name));
    CLATTN_TRY(read_text(device, CL_DRIVER_VERSION, info->driver, sizeof info->driver));
    CLATTN_TRY(read_text(device, CL_DEVICE_VERSION, info->version, sizeof info->version));
    CLATTN_TRY(clattn_from_cl(
        clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof info->platform, info->platform, NULL),
        "clGetPlatformInfo"));
    char extensions[8192];
    CLATTN_TRY(read_text(device, CL_DEVICE_EXTENSIONS, extensions, sizeof extensions));
    info->is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0;
    info->is_gpu = (type & CL_DEVICE_TYPE_GPU) != 0;
    info->has_fp64 = has_word(extensions, "cl_khr_fp64");
    info->compute_units = (int)units;
    info->vector_floats = (int)vector;
    info->global_memory = global;
    info->max_allocation = allocation;
    info->local_memory = local;
    info->max_work_group = group;
    if (has_word(extensions, "cl_nv_device_attribute_query"))
        CLATTN_TRY(read_capability(device, &info->compute_capability));
    return CLATTN_SUCCESS;
}

static void read_platform_name(cl_platform_id platform, char name[128])
{
    if (clGetPlatformInfo(platform, CL_PLATFORM_NAME, 128, name, NULL) != CL_SUCCESS)
        snprintf(name, 128, "?");
}

/* What a platform that failed has said; another may have the device that is wanted. */
struct platform_failure {
    cl_platform_id platform;
    cl_int error; /* CL_SUCCESS: none has failed */
};

/* Appends the devices of one platform; a platform without devices is no error. */
static clattn_status list_platform(cl_platform_id platform, clattn_device_info *infos, int capacity,
                                   int *count, struct platform_failure *failure)
{
    cl_uint devices = 0;
    const cl_int error = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &devices);
    if (error != CL_SUCCESS && error != CL_DEVICE_NOT_FOUND)
        *failure = (struct platform_failure){platform, error};
    if (error != CL_SUCCESS || devices == 0)
        return CLATTN_SUCCESS;
    cl_device_id *ids = malloc(devices * sizeof *ids);
    if (!ids)
        return clattn_fail(CLATTN_OUT_OF_MEMORY, "host memory for %u devices", devices);
    clattn_status status =
        clattn_from_cl(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, devices, ids, NULL), "clGetDeviceIDs");
    for (cl_uint i = 0; i < devices && status == CLATTN_SUCCESS; i++, (*count)++)
        if (*count < capacity)
            status = clattn_device_read(ids[i], &infos[*count]);
    free(ids);
    return status;
}

clattn_status clattn_devices(clattn_device_info *infos, int capacity, int *count)
{
    if (!count)
        return clattn_fail(CLATTN_INVALID_ARGUMENT,
                           "count: NULL, expected where to put the number of devices");
    *count = 0;
    cl_uint platforms = 0;
    /* a loader without platforms answers with an error of its own */
    if (clGetPlatformIDs(0, NULL, &platforms) != CL_SUCCESS || platforms == 0)
        return CLATTN_SUCCESS;
    cl_platform_id *ids = malloc(platforms * sizeof *ids);
    if (!ids)
        return clattn_fail(CLATTN_OUT_OF_MEMORY, "host memory for %u platforms", platforms);
    clattn_status status = clattn_from_cl(clGetPlatformIDs(platforms, ids, NULL), "clGetPlatformIDs");
    struct platform_failure failure = {NULL, CL_SUCCESS};
    for (cl_uint i = 0; i < platforms && status == CLATTN_SUCCESS; i++)
        status = list_platform(ids[i], infos, infos ? capacity : 0, count, &failure);
    free(ids);
    if (status != CLATTN_SUCCESS || *count > 0 || failure.error == CL_SUCCESS)
        return status;
    char name[128], call[192];
    read_platform_name(failure.platform, name);
    snprintf(call, sizeof call, "clGetDeviceIDs of platform '%s'", name);
    return clattn_from_cl(failure.error, call);
}

static bool contains_ignoring_case(const char *text, const char *part)
{
    const size_t length = strlen(part);
    for (; *text; text++) {
        size_t i = 0;
        while (i < length && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i]))
            i++;
        if (i == length)
            return true;
    }
    return length == 0;
}

static clattn_status pick(const char *selector, const clattn_device_info *infos, int count, int *picked)
{
    if (selector && !*selector)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "device: '', expected an index or a part of a name");
    if (!selector) {
        *picked = 0;
        for (int i = count - 1; i >= 0; i--)
            if (infos[i].is_gpu)
                *picked = i;
        return CLATTN_SUCCESS;
    }
    char *end;
    const long index = strtol(selector, &end, 10);
    if (!*end) {
        if (index < 0 || index >= count)
            return clattn_fail(CLATTN_INVALID_ARGUMENT, "device: index %s, expected 0 .. %d", selector,
                               count - 1);
        *picked = (int)index;
        return CLATTN_SUCCESS;
    }
    *picked = -1;
    for (int i = 0; i < count; i++) {
        if (!contains_ignoring_case(infos[i].name, selector))
            continue;
        if (*picked >= 0)
            return clattn_fail(CLATTN_INVALID_ARGUMENT, "device: '%s' fits both '%s' (%d) and '%s' (%d)",
                               selector, infos[*picked].name, *picked, infos[i].name, i);
        *picked = i;
    }
    if (*picked < 0)
        return clattn_fail(CLATTN_INVALID_ARGUMENT,
                           "device: no device has '%s' in its name; the first is '%s'", selector,
                           infos[0].name);
    return CLATTN_SUCCESS;
}

/* A driver may be there and find nothing: no such hardware, no rights, or (PoCL) no folder to compile in. */
static clattn_status no_device(void)
{
    cl_platform_id platforms[8];
    cl_uint count = 0;
    if (clGetPlatformIDs(8, platforms, &count) != CL_SUCCESS || count == 0)
        return clattn_fail(
            CLATTN_UNSUPPORTED,
            "no OpenCL device: expected an installed OpenCL platform (on Debian, pocl-opencl-icd)");
    char names[600] = "";
    for (cl_uint i = 0; i < count && i < 8; i++) {
        char name[128];
        read_platform_name(platforms[i], name);
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s'%.60s'", i ? ", " : "", name);
    }
    return clattn_fail(CLATTN_UNSUPPORTED,
                       "no OpenCL device: none on platform %s; expected hardware for it, the right to use "
                       "it, and for PoCL a HOME or POCL_CACHE_DIR that can be written",
                       names);
}

clattn_status clattn_device_find(const char *selector, clattn_device_info *info)
{
    int count = 0;
    CLATTN_TRY(clattn_devices(NULL, 0, &count));
    if (count == 0)
        return no_device();
    clattn_device_info *infos = calloc((size_t)count, sizeof *infos);
    if (!infos)
        return clattn_fail(CLATTN_OUT_OF_MEMORY, "host memory for %d devices", count);
    int listed = 0, picked = 0;
    clattn_status status = clattn_devices(infos, count, &listed);
    if (status == CLATTN_SUCCESS)
        status = pick(selector, infos, count < listed ? count : listed, &picked);
    if (status == CLATTN_SUCCESS)
        *info = infos[picked];
    free(infos);
    return status;
}
