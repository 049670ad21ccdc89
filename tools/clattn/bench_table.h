/*
 * The benchmark's rows as tables for people: as text, Markdown or CSV.
 * Measures nothing.
 */
#ifndef CLATTN_TOOL_BENCH_TABLE_H
#define CLATTN_TOOL_BENCH_TABLE_H

#include "bench_options.h"
#include "bench_rows.h"

/* Prints on stdout; JSON too. Returns the exit code. */
int bench_table_print(const bench_report *report, bench_format format);

#endif /* CLATTN_TOOL_BENCH_TABLE_H */
