/*
 * The clock of the benchmark.
 */
#include "bench_time.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

double bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static bool check(cl_int error, const char *call, bench_reason *reason)
{
    return error == CL_SUCCESS || bench_refuse(reason, "%s: OpenCL error %d", call, (int)error);
}

bool bench_run_once(const bench_method *method, void *run, bench_device *device, bench_reason *reason)
{
    return method->enqueue(run, reason) && check(clFinish(device->queue), "clFinish", reason);
}

/* Milliseconds from the end of one event to the end of another; NaN where the driver does not say. */
static double between(cl_event first, cl_event last)
{
    cl_ulong start, end;
    if (clGetEventProfilingInfo(first, CL_PROFILING_COMMAND_END, sizeof start, &start, NULL) != CL_SUCCESS ||
        clGetEventProfilingInfo(last, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL) != CL_SUCCESS ||
        end < start)
        return NAN;
    return 1e-6 * (double)(end - start);
}

static bool mark(bench_device *device, cl_event *event, bench_reason *reason)
{
    return check(clEnqueueMarkerWithWaitList(device->queue, 0, NULL, event), "clEnqueueMarker", reason);
}

typedef struct stopwatch {
    int count;
    double device_ms[BENCH_MOST_REPEATS], wall_ms[BENCH_MOST_REPEATS];
} stopwatch;

/* Runs `count` times without a wait between, a marker of the in-order queue before and after each. */
static bool time_runs(const bench_method *method, void *run, bench_device *device, int count,
                      stopwatch *watch, bench_reason *reason)
{
    cl_event marks[BENCH_MOST_REPEATS + 1] = {NULL};
    const double start = bench_now();
    bool ok = mark(device, &marks[0], reason);
    for (int i = 0; i < count && ok; i++)
        ok = method->enqueue(run, reason) && mark(device, &marks[i + 1], reason);
    ok = check(clFinish(device->queue), "clFinish", reason) && ok;
    const double wall_ms = (bench_now() - start) / count;
    for (int i = 0; i < count && ok; i++) {
        const double device_ms = between(marks[i], marks[i + 1]);
        watch->wall_ms[watch->count] = wall_ms;
        watch->device_ms[watch->count++] = isnan(device_ms) ? wall_ms : device_ms;
    }
    for (int i = 0; i <= count; i++)
        if (marks[i])
            clReleaseEvent(marks[i]);
    return ok;
}

static int compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* A quantile of sorted values, between neighbours in proportion. */
static double quantile(const double *sorted, int count, double q)
{
    const double at = q * (count - 1);
    const int below = (int)at, above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

/* How many runs fit into BENCH_ENOUGH_MS, by the one that is timed first. */
static int affordable(const bench_pace *pace, double first_ms)
{
    const double runs = BENCH_ENOUGH_MS / fmax(first_ms, 1e-3);
    return runs >= pace->repeats         ? pace->repeats
           : runs <= BENCH_LEAST_REPEATS ? BENCH_LEAST_REPEATS
                                         : (int)runs;
}

bool bench_measure(const bench_method *method, void *run, bench_device *device, const bench_pace *pace,
                   bench_time *time, bench_reason *reason)
{
    stopwatch watch = {.count = 0};
    if (!time_runs(method, run, device, 1, &watch, reason))
        return false;
    const int count = affordable(pace, watch.wall_ms[0]);
    bool ok = true;
    if (pace->back_to_back) {
        watch.count = 0;
        ok = time_runs(method, run, device, count, &watch, reason);
    }
    while (ok && watch.count < count)
        ok = time_runs(method, run, device, 1, &watch, reason);
    if (!ok)
        return false;
    qsort(watch.device_ms, (size_t)count, sizeof(double), compare_doubles);
    qsort(watch.wall_ms, (size_t)count, sizeof(double), compare_doubles);
    *time = (bench_time){count, quantile(watch.device_ms, count, 0.5),
                         quantile(watch.device_ms, count, 0.75) - quantile(watch.device_ms, count, 0.25),
                         quantile(watch.wall_ms, count, 0.5)};
    return true;
}
