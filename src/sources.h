/*
 * The OpenCL files of cl/, embedded at build time by cmake/embed.cmake.
 * Nothing is read from the source tree at run time.
 */
#ifndef CLATTN_SOURCES_H
#define CLATTN_SOURCES_H

#include <stddef.h>

struct clattn_source {
    const char *name; /* relative to cl/: "attention/forward.cl" */
    const char *text; /* NUL-terminated */
    size_t length;    /* bytes of text, without the NUL */
};

/* In no order that callers may rely on. */
extern const struct clattn_source clattn_sources[];
extern const size_t clattn_sources_count;

#endif /* CLATTN_SOURCES_H */
