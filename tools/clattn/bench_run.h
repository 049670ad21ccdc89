/*
 * Measures the rows of the benchmark. Shows nothing but its progress.
 */
#ifndef CLATTN_TOOL_BENCH_RUN_H
#define CLATTN_TOOL_BENCH_RUN_H

#include "bench_options.h"
#include "bench_rows.h"

/* Fills the report, row by row. What does not fit or is refused is a row that says so. Prints what is wrong and returns
 * the exit code; the report is to be freed in any case. */
int bench_run(const bench_options *options, bench_report *report);

#endif /* CLATTN_TOOL_BENCH_RUN_H */
