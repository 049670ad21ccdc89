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

#endif
