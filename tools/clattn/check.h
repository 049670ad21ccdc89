/* The parts of `clattn check`. */
#ifndef CLATTN_TOOL_CHECK_H
#define CLATTN_TOOL_CHECK_H

#include <clattn/clattn.h>

/* A logit function and what it gets as data. */
typedef struct logit_function {
    const char *text;
    float *data;
    int64_t data_count;
} logit_function;

/* Compares the derivatives that a logit function gives with finite differences, on the context's device. Prints the
 * result and returns the exit code. */
int check_logit(clattn_context *context, bool has_fp64, const logit_function *function);

#endif /* CLATTN_TOOL_CHECK_H */
