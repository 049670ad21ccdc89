/*
 * The options of `clattn bench`: which rows, how they are timed and how they
 * are shown. Knows nothing of devices or methods.
 */
#ifndef CLATTN_TOOL_BENCH_OPTIONS_H
#define CLATTN_TOOL_BENCH_OPTIONS_H

#include "bench_case.h"

enum {
    BENCH_LIST_SIZE = 32
};

typedef struct bench_list {
    int count;
    int64_t values[BENCH_LIST_SIZE];
} bench_list;

typedef enum bench_format {
    BENCH_TEXT,
    BENCH_JSON,
    BENCH_CSV,
    BENCH_MARKDOWN
} bench_format;

typedef enum bench_causal {
    BENCH_CAUSAL_AS_THE_SEEDS, /* every mask without it, and it without a mask */
    BENCH_CAUSAL_NO,
    BENCH_CAUSAL_YES,
    BENCH_CAUSAL_BOTH
} bench_causal;

/* A row for each combination of the lists. Operations, dtypes and masks are held as numbers. */
typedef struct bench_options {
    bench_list operations, dtypes, heads, dims, lengths, masks;
    int64_t batch, tangents;
    bool shares_mask;
    bench_causal causal;
    bool math, clattn; /* the methods */
    int64_t repeats, judged_heads;
    bool back_to_back;
    const char *device, *engine;
    bench_format format;
} bench_options;

/* Parses argv[1..]. Prints what is wrong and returns the exit code. */
int bench_options_parse(int argc, char **argv, bench_options *options);

void bench_options_print_help(void);

/* Number of problems; the i-th of them. */
int bench_options_count(const bench_options *options);
bench_spec bench_options_spec(const bench_options *options, int index);

#endif /* CLATTN_TOOL_BENCH_OPTIONS_H */
