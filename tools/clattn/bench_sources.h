/*
 * bench_math.cl, embedded at build time by cmake/embed.cmake.
 */
#ifndef CLATTN_TOOL_BENCH_SOURCES_H
#define CLATTN_TOOL_BENCH_SOURCES_H

#include "sources.h"

/* One source. */
extern const struct clattn_source bench_sources[];
extern const size_t bench_sources_count;

#endif /* CLATTN_TOOL_BENCH_SOURCES_H */
