/* Checks of what a caller hands to an enqueue call: queue, wait list, memory objects. */
#ifndef CLATTN_CALL_H
#define CLATTN_CALL_H

#include "clattn/clattn.h"

clattn_status clattn_check_queue(const clattn_context *context, cl_command_queue queue);
clattn_status clattn_check_wait_list(const clattn_context *context, cl_uint wait_count,
                                     const cl_event *wait_list);

/* Where an array of a call lies, and what the kernels do with it. */
struct clattn_place {
    const char *name; /* goes into messages */
    clattn_buffer buffer;
    uint64_t bytes;
    size_t element; /* bytes of one */
    bool dense;     /* no byte between the first and the last belongs to another array */
    bool read, written;
};

/* That a place's memory object is a buffer of the context, that kernels may do to it what they will, and that it
 * holds the bytes from its offset on. */
clattn_status clattn_check_memory(const clattn_context *context, const struct clattn_place *place);

/* That what is written shares no byte with another place. Rows may lie in the gaps between another's, so only places
 * that share bytes for certain are refused: the first or last element of one within a dense other, or at the first or
 * last of the other. */
clattn_status clattn_check_apart(const struct clattn_place *places, int count);

/* Whether two places share bytes for certain. */
bool clattn_places_overlap(const struct clattn_place *a, const struct clattn_place *b);

#endif
