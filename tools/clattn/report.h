/*
 * What `clattn run` says on stdout. Computes nothing.
 */
#ifndef CLATTN_TOOL_REPORT_H
#define CLATTN_TOOL_REPORT_H

#include "compare.h"
#include "device_run.h"
#include "npy.h"
#include "options.h"

typedef struct report {
    const run_options *options;
    const device_run *device;
    const npy_array *results;      /* [CLATTN_TENSOR_COUNT] */
    const comparison *comparisons; /* [CLATTN_TENSOR_COUNT] */
    const device_timing *timing;
    const clattn_tile_count *tiles; /* counted for --json only */
} report;

/* Prints lines for people, or with --json one object. Returns the exit code. */
int report_print(const report *content);

#endif /* CLATTN_TOOL_REPORT_H */
