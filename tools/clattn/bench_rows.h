/*
 * What the benchmark has found, in memory and as the JSON of tests/cli/bench.schema.json.
 * Knows nothing of how it was found or how it is shown.
 */
#ifndef CLATTN_TOOL_BENCH_ROWS_H
#define CLATTN_TOOL_BENCH_ROWS_H

#include "bench_case.h"

#include <cjson/cJSON.h>

enum {
    BENCH_METHOD_SIZE = 32,
    BENCH_TEXT_SIZE = 256
};

/* Numbers that were not measured are NaN. */
typedef struct bench_row {
    bench_spec spec;
    char method[BENCH_METHOD_SIZE];
    char engine[BENCH_TEXT_SIZE]; /* "": not said */
    double time_ms;               /* median, by the device's events */
    double time_spread_ms;        /* interquartile range of it */
    double wall_ms;               /* median, enqueue to finish */
    double warm_up_ms;            /* compilation, buffers and the first run */
    int repeats;
    double mem_mb;     /* buffers at the peak, 2^20 bytes */
    double process_mb; /* the process's peak, on CPUs */
    double tflops;
    double max_error;
    bool grad_check;               /* every result and gradient within its bar */
    char skipped[BENCH_TEXT_SIZE]; /* why nothing was measured; "": it was */
} bench_row;

typedef struct bench_report {
    char device[BENCH_TEXT_SIZE], driver[BENCH_TEXT_SIZE], version[BENCH_TEXT_SIZE];
    char date[16]; /* 2026-12-31 */
    bench_row *rows;
    int count, capacity;
} bench_report;

/* A row with nothing measured yet. */
bench_row bench_row_of(const bench_spec *spec, const char *method);

/* False when out of memory. */
bool bench_report_add(bench_report *report, const bench_row *row);
void bench_report_free(bench_report *report);

/* The row of the same problem by another method; NULL if there is none. */
const bench_row *bench_report_find(const bench_report *report, const bench_spec *spec, const char *method);

bool bench_same_spec(const bench_spec *left, const bench_spec *right);

/* Rows that are shown together: of one operation, type and shape, apart from the length. */
bool bench_same_group(const bench_spec *left, const bench_spec *right);
/* True for the first row of its group. */
bool bench_begins_group(const bench_report *report, int index);

/* NULL when out of memory. */
cJSON *bench_report_json(const bench_report *report);

/* Reads a file that bench_report_json's text went to. Prints what is wrong and returns the exit code; *report is to be
 * freed in any case. */
int bench_report_read(const char *path, bench_report *report);

#endif /* CLATTN_TOOL_BENCH_ROWS_H */
