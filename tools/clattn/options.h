/*
 * The options of `clattn run`: parsed from the command line, checked as far as
 * that goes without reading a file. Knows nothing of arrays or devices.
 */
#ifndef CLATTN_TOOL_OPTIONS_H
#define CLATTN_TOOL_OPTIONS_H

#include <clattn/clattn.h>

/* Texts belong to the command line; NULL where an option was not given. */
typedef struct run_options {
    clattn_operation operation;
    const char *files[CLATTN_TENSOR_COUNT]; /* the .npy file of each input */
    bool seq_major;                         /* --layout bshd */

    clattn_causal causal;
    int64_t window_left, window_right;
    double softcap;
    bool has_scale;
    double scale;
    double dropout;
    uint64_t seed, offset;
    int64_t block_rows, block_columns; /* 0: not given */
    const char *logit;

    clattn_dtype dtype;
    bool out_f32;
    const char *device;
    const char *engine;

    const char *out;
    const char *expect;
    double tolerance; /* negative: the default bar */
    int64_t time;     /* 0: not timed */
    bool json;
} run_options;

/* Parses argv[1..]. Prints what is wrong and returns the exit code. */
int options_parse(int argc, char **argv, run_options *options);

void options_print_help(void);

/* The option that gives a tensor, "--kv-lengths"; NULL for one that none gives. */
const char *options_name(clattn_tensor tensor);

#endif /* CLATTN_TOOL_OPTIONS_H */
