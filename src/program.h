/* Programs by what shapes them, each built once a context. Knows sources and options, not what they mean. */
#ifndef CLATTN_PROGRAM_H
#define CLATTN_PROGRAM_H

#include <pthread.h>

#include "clattn/clattn.h"

#define CLATTN_MAX_SOURCES 32
#define CLATTN_OPTIONS_SIZE 1024

/* What a program is made from. */
struct clattn_program_spec {
    const char *sources[CLATTN_MAX_SOURCES]; /* names in cl/, in order; static strings */
    int source_count;
    char options[CLATTN_OPTIONS_SIZE];
    bool
        is_ptx_for_sm_90a; /* what the driver makes of the sources is PTX that stands for other PTX: see ptx.h */
    const char *logit;     /* the caller's logit function, or NULL; takes the place of CLATTN_LOGIT_SOURCE */
};

/* The name in `sources` that stands for the caller's text. */
#define CLATTN_LOGIT_SOURCE "logit"

void clattn_spec_add_source(struct clattn_program_spec *spec, const char *name);
/* Appends " -D NAME=value". */
void clattn_spec_define(struct clattn_program_spec *spec, const char *name, long value);

struct clattn_program_entry;

/* May be used from many threads at once. */
struct clattn_program_store {
    pthread_mutex_t lock;
    struct clattn_program_entry *first;
    int built;
};

void clattn_program_store_init(struct clattn_program_store *store);
void clattn_program_store_clear(struct clattn_program_store *store);
int clattn_program_store_built(const struct clattn_program_store *store);

/* The program of a spec, built if it is the first time; owned by the store. *note becomes what its build said to its
 * speed, or "". */
clattn_status clattn_program_get(clattn_context *context, const struct clattn_program_spec *spec,
                                 cl_program *program, const char **note);

#endif
