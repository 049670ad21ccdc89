/*
 * The clock of the benchmark: one method's run, timed by the device's events
 * and by the wall.
 */
#ifndef CLATTN_TOOL_BENCH_TIME_H
#define CLATTN_TOOL_BENCH_TIME_H

#include "bench_method.h"

typedef struct bench_time {
    int repeats;
    double
        device_ms; /* median, from the first command's start to the last one's end; the wall's if events have no
                         times */
    double spread_ms; /* interquartile range of those */
    double wall_ms;   /* median, from enqueue to finish; back to back the mean */
} bench_time;

/* Milliseconds since some moment. */
double bench_now(void);

typedef struct bench_pace {
    int repeats;
    bool back_to_back; /* no wait between runs */
} bench_pace;

/* Runs up to `repeats` times, at least BENCH_LEAST_REPEATS of them, and stops early after BENCH_ENOUGH_MS. */
enum {
    BENCH_LEAST_REPEATS = 3,
    BENCH_MOST_REPEATS = 1000,
    BENCH_ENOUGH_MS = 3000
};
bool bench_measure(const bench_method *method, void *run, bench_device *device, const bench_pace *pace,
                   bench_time *time, bench_reason *reason);

/* Enqueues once and waits. */
bool bench_run_once(const bench_method *method, void *run, bench_device *device, bench_reason *reason);

#endif /* CLATTN_TOOL_BENCH_TIME_H */
