/*
 * The library as a method of the benchmark.
 */
#include "bench_method.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct clattn_run {
    bench_device *device;
    clattn_plan *plan;
    clattn_buffer buffers[CLATTN_TENSOR_COUNT];
    cl_mem workspace;
    char engine[128];
} clattn_run;

static void close_run(void *opened)
{
    clattn_run *run = opened;
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        bench_device_free(run->device, run->buffers[t].memory);
    bench_device_free(run->device, run->workspace);
    clattn_plan_release(run->plan);
    free(run);
}

static bool make_plan(clattn_run *run, clattn_operation operation, const clattn_problem *problem,
                      clattn_plan_info *info)
{
    return clattn_plan_create(run->device->context, operation, problem, &run->plan) == CLATTN_SUCCESS &&
           clattn_plan_describe(run->plan, info) == CLATTN_SUCCESS;
}

static bool make_buffers(clattn_run *run, const bench_job *job, const clattn_problem *problem,
                         uint64_t workspace, bench_reason *reason)
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        const clattn_tensor tensor = (clattn_tensor)t;
        if (!problem->present[t])
            continue;
        run->buffers[t].memory =
            bench_device_buffer(run->device, clattn_tensor_name(tensor),
                                clattn_problem_bytes(problem, tensor), job->given->inputs[t], reason);
        if (!run->buffers[t].memory)
            return false;
    }
    if (workspace > 0)
        run->workspace = bench_device_buffer(run->device, "workspace", workspace, NULL, reason);
    return workspace == 0 || run->workspace;
}

static void *open_run(const bench_job *job, bench_reason *reason)
{
    clattn_problem problem;
    bench_case_problem(&job->given->spec, job->operation, &problem);
    problem.engine = job->engine;
    clattn_run *run = calloc(1, sizeof *run);
    if (!run) {
        bench_refuse(reason, "out of memory");
        return NULL;
    }
    run->device = job->device;
    clattn_plan_info info;
    bool ok = make_plan(run, job->operation, &problem, &info);
    if (!ok)
        bench_refuse(reason, "%s", clattn_message());
    ok = ok && make_buffers(run, job, &problem, info.workspace_bytes, reason);
    if (!ok) {
        close_run(run);
        return NULL;
    }
    snprintf(run->engine, sizeof run->engine, "%s, %s", info.engine, info.tiles);
    return run;
}

static bool enqueue_run(void *opened, bench_reason *reason)
{
    clattn_run *run = opened;
    const clattn_status status =
        clattn_enqueue(run->plan, run->device->queue, run->buffers, run->workspace, 0, NULL, NULL);
    return status == CLATTN_SUCCESS || bench_refuse(reason, "%s", clattn_message());
}

static cl_mem result_of_run(const void *run, clattn_tensor tensor)
{
    return ((const clattn_run *)run)->buffers[tensor].memory;
}

static const char *engine_of_run(const void *run) { return ((const clattn_run *)run)->engine; }

const bench_method bench_method_clattn = {"clattn",      open_run,      enqueue_run,
                                          result_of_run, engine_of_run, close_run};
