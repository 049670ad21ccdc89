/* Failing with a message: one line, kept for the calling thread. */
#ifndef CLATTN_STATUS_H
#define CLATTN_STATUS_H

#include "clattn/clattn.h"

/* Sets the thread's message, in which control characters become '?', and returns `status`. */
clattn_status clattn_fail(clattn_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The thread's build log, for what has failed to build to write to. */
#define CLATTN_LOG_SIZE 8192
char *clattn_build_log_to_fill(void);

/* CLATTN_DEVICE_ERROR or CLATTN_OUT_OF_MEMORY for an OpenCL error of `call`; CLATTN_SUCCESS for CL_SUCCESS. */
clattn_status clattn_from_cl(cl_int error, const char *call);

/* Returns early with the status of an expression that failed. */
#define CLATTN_TRY(expression)                                                                               \
    do {                                                                                                     \
        const clattn_status try_status_ = (expression);                                                      \
        if (try_status_ != CLATTN_SUCCESS)                                                                   \
            return try_status_;                                                                              \
    } while (0)

#endif
