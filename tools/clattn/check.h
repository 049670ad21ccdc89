/* The parts of `clattn check`. */
#ifndef CLATTN_TOOL_CHECK_H
#define CLATTN_TOOL_CHECK_H

#include <clattn/clattn.h>

/* Compares the derivatives that a logit function gives with finite differences, on the context's device; its data are
 * zeros. Prints the result and returns the exit code. */
int check_logit(clattn_context *context, bool has_fp64, const char *logit);

#endif /* CLATTN_TOOL_CHECK_H */
