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

/* One run between two markers of the in-order queue. */
static bool time_once(const bench_method *method, void *run, bench_device *device, double *device_ms,
                      double *wall_ms, bench_reason *reason)
{
    cl_event first = NULL, last = NULL;
    const double start = bench_now();
    bool ok = check(clEnqueueMarkerWithWaitList(device->queue, 0, NULL, &first), "clEnqueueMarker", reason) &&
              method->enqueue(run, reason) &&
              check(clEnqueueMarkerWithWaitList(device->queue, 0, NULL, &last), "clEnqueueMarker", reason);
    ok = check(clFinish(device->queue), "clFinish", reason) && ok;
    *wall_ms = bench_now() - start;
    if (ok)
        *device_ms = between(first, last);
    if (ok && isnan(*device_ms))
        *device_ms = *wall_ms;
    if (first)
        clReleaseEvent(first);
    if (last)
        clReleaseEvent(last);
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

bool bench_measure(const bench_method *method, void *run, bench_device *device, int repeats, bench_time *time,
                   bench_reason *reason)
{
    double device_ms[BENCH_MOST_REPEATS], wall_ms[BENCH_MOST_REPEATS];
    const double start = bench_now();
    int count = 0;
    while (count < repeats && (count < BENCH_LEAST_REPEATS || bench_now() - start < BENCH_ENOUGH_MS)) {
        if (!time_once(method, run, device, &device_ms[count], &wall_ms[count], reason))
            return false;
        count++;
    }
    qsort(device_ms, (size_t)count, sizeof *device_ms, compare_doubles);
    qsort(wall_ms, (size_t)count, sizeof *wall_ms, compare_doubles);
    *time = (bench_time){count, quantile(device_ms, count, 0.5),
                         quantile(device_ms, count, 0.75) - quantile(device_ms, count, 0.25),
                         quantile(wall_ms, count, 0.5)};
    return true;
}
