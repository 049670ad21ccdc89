/* Checks of what a caller hands to an enqueue call: queue, wait list, memory objects. */
#ifndef CLATTN_CALL_H
#define CLATTN_CALL_H

#include "clattn/clattn.h"

clattn_status clattn_check_queue(const clattn_context *context, cl_command_queue queue);
clattn_status clattn_check_wait_list(cl_uint wait_count, const cl_event *wait_list);

/* That a memory object is of the context and holds `needed` bytes; `name` goes into the message. */
clattn_status clattn_check_memory(const clattn_context *context, const char *name, cl_mem memory, uint64_t needed);

#endif
