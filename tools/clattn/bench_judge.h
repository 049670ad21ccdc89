/*
 * Are a method's results right? Some heads of them against the float64 oracle
 * that also judges the tests, by the same bars.
 */
#ifndef CLATTN_TOOL_BENCH_JUDGE_H
#define CLATTN_TOOL_BENCH_JUDGE_H

#include "bench_method.h"

/* The oracle's answers to an operation on a case's inputs. */
typedef struct bench_judge bench_judge;

/* Computes them for `heads` of the B H heads, the first and the last among them, each in a thread of its own. NULL when
 * out of memory. The case must live as long. */
bench_judge *bench_judge_make(const bench_case *given, clattn_operation operation, int heads);
void bench_judge_free(bench_judge *judge);

typedef struct bench_verdict {
    double max_error; /* the largest |x - reference| of all results but the log-sum-exp */
    bool passes;      /* each result within the bar of its type and operation */
} bench_verdict;

/* Reads the results of a finished run; widens *verdict, which starts as {0, true}. */
bool bench_judge_run(bench_judge *judge, const bench_method *method, const void *run, bench_device *device,
                     bench_verdict *verdict, bench_reason *reason);

#endif /* CLATTN_TOOL_BENCH_JUDGE_H */
