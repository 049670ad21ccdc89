/* A device with its compiled programs. */
#ifndef CLATTN_CONTEXT_H
#define CLATTN_CONTEXT_H

#include "clattn/clattn.h"
#include "program.h"

struct clattn_context {
    cl_context cl;
    clattn_device_info device;
    struct clattn_program_store programs;
};

/* Makes a buffer of `bytes` of a named array, on a copy of `host` if that is not NULL. What is larger than the device
 * allocates at once is refused before OpenCL is asked: some drivers find out only at the launch. */
clattn_status clattn_create_buffer(const clattn_context *context, const char *name, cl_mem_flags flags,
                                   uint64_t bytes, void *host, cl_mem *memory);

/* That the device may have a buffer of that size. */
clattn_status clattn_check_allocation(const clattn_context *context, const char *name, uint64_t bytes);

#endif
