/* Status codes and the calling thread's last message. */
#include "status.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

#define MESSAGE_SIZE 2048

static _Thread_local char message[MESSAGE_SIZE];
static _Thread_local char build_log[CLATTN_LOG_SIZE];

const char *clattn_status_name(clattn_status status)
{
    switch (status) {
    case CLATTN_SUCCESS:
        return "success";
    case CLATTN_INVALID_ARGUMENT:
        return "invalid argument";
    case CLATTN_UNSUPPORTED:
        return "unsupported";
    case CLATTN_OUT_OF_MEMORY:
        return "out of memory";
    case CLATTN_DEVICE_ERROR:
        return "device error";
    case CLATTN_BUILD_ERROR:
        return "build error";
    }
    return "unknown status";
}

const char *clattn_message(void) { return message; }

const char *clattn_build_log(void) { return build_log; }

char *clattn_build_log_to_fill(void) { return build_log; }

const char *clattn_version(void)
{
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
    return TEXT(CLATTN_VERSION_MAJOR) "." TEXT(CLATTN_VERSION_MINOR) "." TEXT(CLATTN_VERSION_PATCH);
}

clattn_status clattn_fail(clattn_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    /* names of others (a device, an engine that is asked for, what a compiler says) must not break the line */
    for (char *character = message; *character; character++)
        if (iscntrl((unsigned char)*character))
            *character = '?';
    return status;
}

static const char *cl_error_name(cl_int error)
{
    switch (error) {
    case CL_DEVICE_NOT_AVAILABLE:
        return "CL_DEVICE_NOT_AVAILABLE";
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
        return "CL_MEM_OBJECT_ALLOCATION_FAILURE";
    case CL_OUT_OF_RESOURCES:
        return "CL_OUT_OF_RESOURCES";
    case CL_OUT_OF_HOST_MEMORY:
        return "CL_OUT_OF_HOST_MEMORY";
    case CL_BUILD_PROGRAM_FAILURE:
        return "CL_BUILD_PROGRAM_FAILURE";
    case CL_INVALID_VALUE:
        return "CL_INVALID_VALUE";
    case CL_INVALID_DEVICE:
        return "CL_INVALID_DEVICE";
    case CL_INVALID_CONTEXT:
        return "CL_INVALID_CONTEXT";
    case CL_INVALID_COMMAND_QUEUE:
        return "CL_INVALID_COMMAND_QUEUE";
    case CL_INVALID_MEM_OBJECT:
        return "CL_INVALID_MEM_OBJECT";
    case CL_INVALID_WORK_GROUP_SIZE:
        return "CL_INVALID_WORK_GROUP_SIZE";
    case CL_INVALID_EVENT_WAIT_LIST:
        return "CL_INVALID_EVENT_WAIT_LIST";
    case CL_INVALID_BUFFER_SIZE:
        return "CL_INVALID_BUFFER_SIZE";
    default:
        return "OpenCL error";
    }
}

clattn_status clattn_from_cl(cl_int error, const char *call)
{
    if (error == CL_SUCCESS)
        return CLATTN_SUCCESS;
    const bool memory = error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_RESOURCES ||
                        error == CL_OUT_OF_HOST_MEMORY || error == CL_INVALID_BUFFER_SIZE;
    return clattn_fail(memory ? CLATTN_OUT_OF_MEMORY : CLATTN_DEVICE_ERROR, "%s: %s (%d)", call,
                       cl_error_name(error), (int)error);
}
