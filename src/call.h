/* Checks of what a caller hands to an enqueue call: queue, wait list, memory objects. */
#ifndef CLATTN_CALL_H
#define CLATTN_CALL_H

#include "clattn/clattn.h"

clattn_status clattn_check_queue(const clattn_context *context, cl_command_queue queue);
clattn_status clattn_check_wait_list(cl_uint wait_count, const cl_event *wait_list);

/* That a buffer's memory object is of the context and holds `bytes` from its offset on; `name` goes into the message. */
clattn_status clattn_check_memory(const clattn_context *context, const char *name,
                                  const clattn_buffer *buffer, uint64_t bytes);

#endif
