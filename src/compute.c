/* The call for people who just have arrays: buffers, one enqueue, and back. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "status.h"
#include "tensor.h"

/* What one call makes and must free. */
struct work {
    clattn_plan *plan;
    cl_command_queue queue;
    clattn_buffer buffers[CLATTN_TENSOR_COUNT];
    cl_mem workspace;
    void *results[CLATTN_TENSOR_COUNT];
};

static clattn_status check_lengths(const clattn_problem *p, const int32_t *lengths)
{
    for (int64_t b = 0; b < p->batch; b++)
        if (lengths[b] < 0 || lengths[b] > p->keys)
            return clattn_fail(CLATTN_INVALID_ARGUMENT,
                               "kv_lengths: entry %" PRId64 " is %" PRId32 ", expected 0 .. %" PRId64, b,
                               lengths[b], p->keys);
    return CLATTN_SUCCESS;
}

static clattn_status check_offsets(const int32_t *offsets, int64_t sequences, int64_t total, const char *name)
{
    for (int64_t b = 0; b <= sequences; b++) {
        const int32_t least = b ? offsets[b - 1] : 0;
        if (offsets[b] < least || offsets[b] > total)
            return clattn_fail(CLATTN_INVALID_ARGUMENT,
                               "%s: entry %" PRId64 " is %" PRId32 ", expected %" PRId32 " .. %" PRId64, name,
                               b, offsets[b], least, total);
    }
    return CLATTN_SUCCESS;
}

static clattn_status check_blocks(const clattn_problem *p, const uint8_t *blocks)
{
    const struct clattn_extent extent = clattn_tensor_extent(p, CLATTN_BLOCK_MASK);
    const int64_t *size = extent.size, *stride = extent.stride;
    for (int64_t b = 0; b < size[1]; b++)
        for (int64_t h = 0; h < size[2]; h++)
            for (int64_t row = 0; row < size[3]; row++)
                for (int64_t column = 0; column < size[4]; column++) {
                    const uint8_t kind =
                        blocks[b * stride[1] + h * stride[2] + row * stride[3] + column * stride[4]];
                    if (kind > 2)
                        return clattn_fail(CLATTN_INVALID_ARGUMENT,
                                           "block_mask: entry [%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64
                                           "] is %d, expected 0, 1 or 2",
                                           b, h, row, column, kind);
                }
    return CLATTN_SUCCESS;
}

/* What the kernels would clamp is refused while it is still the host's to read. */
static clattn_status check_entries(const clattn_problem *p, void *const arrays[])
{
    if (p->present[CLATTN_BLOCK_MASK])
        CLATTN_TRY(check_blocks(p, arrays[CLATTN_BLOCK_MASK]));
    if (p->present[CLATTN_KV_LENGTHS])
        return check_lengths(p, arrays[CLATTN_KV_LENGTHS]);
    if (!p->present[CLATTN_CU_SEQLENS_Q])
        return CLATTN_SUCCESS;
    CLATTN_TRY(check_offsets(arrays[CLATTN_CU_SEQLENS_Q], p->batch, p->queries, "cu_seqlens_q"));
    return check_offsets(arrays[CLATTN_CU_SEQLENS_K], p->batch, p->keys, "cu_seqlens_k");
}

static clattn_status check_arrays(const clattn_problem *p, void *const arrays[])
{
    if (!arrays)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "arrays: NULL, expected CLATTN_TENSOR_COUNT of them");
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        const char *name = clattn_tensor_name((clattn_tensor)t);
        if (p->present[t] && !arrays[t] && clattn_problem_bytes(p, (clattn_tensor)t) > 0)
            return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: NULL, expected an array of %zu bytes", name,
                               clattn_problem_bytes(p, (clattn_tensor)t));
        if (!p->present[t] && arrays[t])
            return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: given, but absent from the problem", name);
    }
    return check_entries(p, arrays);
}

static size_t bytes_of(const clattn_problem *p, int tensor)
{
    return p->present[tensor] ? clattn_problem_bytes(p, (clattn_tensor)tensor) : 0;
}

/* The one that is too large is named before gigabytes of others are copied. */
static clattn_status check_allocations(const clattn_context *context, const clattn_problem *p,
                                       uint64_t workspace_bytes)
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        CLATTN_TRY(clattn_check_allocation(context, clattn_tensor_name((clattn_tensor)t), bytes_of(p, t)));
    return clattn_check_allocation(context, "workspace", workspace_bytes);
}

/* Results are copied in as well: what lies between their rows must come back unchanged. */
static clattn_status create_buffers(clattn_context *context, const clattn_problem *p, void *const arrays[],
                                    struct work *work)
{
    clattn_plan_info info;
    CLATTN_TRY(clattn_plan_describe(work->plan, &info));
    CLATTN_TRY(check_allocations(context, p, info.workspace_bytes));
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        if (bytes_of(p, t) > 0)
            CLATTN_TRY(clattn_create_buffer(context, clattn_tensor_name((clattn_tensor)t), CL_MEM_READ_WRITE,
                                            bytes_of(p, t), arrays[t], &work->buffers[t].memory));
    if (info.workspace_bytes == 0)
        return CLATTN_SUCCESS;
    return clattn_create_buffer(context, "workspace", CL_MEM_READ_WRITE, info.workspace_bytes, NULL,
                                &work->workspace);
}

static bool is_result(const clattn_problem *p, clattn_operation operation, const struct work *work,
                      int tensor)
{
    return work->buffers[tensor].memory && clattn_problem_is_output(p, operation, (clattn_tensor)tensor);
}

/* Everything is read before the first of the caller's arrays is written. */
static clattn_status read_results(const clattn_problem *p, clattn_operation operation, void *const arrays[],
                                  struct work *work)
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        if (!is_result(p, operation, work, t))
            continue;
        const size_t bytes = clattn_problem_bytes(p, (clattn_tensor)t);
        work->results[t] = malloc(bytes);
        if (!work->results[t])
            return clattn_fail(CLATTN_OUT_OF_MEMORY, "host memory for %zu bytes of %s", bytes,
                               clattn_tensor_name((clattn_tensor)t));
        CLATTN_TRY(clattn_from_cl(clEnqueueReadBuffer(work->queue, work->buffers[t].memory, CL_TRUE, 0, bytes,
                                                      work->results[t], 0, NULL, NULL),
                                  "clEnqueueReadBuffer"));
    }
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        if (work->results[t])
            memcpy(arrays[t], work->results[t], clattn_problem_bytes(p, (clattn_tensor)t));
    return CLATTN_SUCCESS;
}

static clattn_status run(clattn_context *context, clattn_operation operation, const clattn_problem *problem,
                         void *const arrays[], struct work *work)
{
    CLATTN_TRY(clattn_plan_create(context, operation, problem, &work->plan));
    CLATTN_TRY(check_arrays(problem, arrays));
    cl_int error;
    work->queue = clCreateCommandQueue(context->cl, context->device.id, 0, &error);
    CLATTN_TRY(clattn_from_cl(error, "clCreateCommandQueue"));
    CLATTN_TRY(create_buffers(context, problem, arrays, work));
    CLATTN_TRY(clattn_enqueue(work->plan, work->queue, work->buffers, work->workspace, 0, NULL, NULL));
    CLATTN_TRY(clattn_from_cl(clFinish(work->queue), "clFinish"));
    return read_results(problem, operation, arrays, work);
}

clattn_status clattn_compute(clattn_context *context, clattn_operation operation,
                             const clattn_problem *problem, void *const arrays[CLATTN_TENSOR_COUNT])
{
    struct work work = {NULL};
    const clattn_status status = run(context, operation, problem, arrays, &work);
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        if (work.buffers[t].memory)
            clReleaseMemObject(work.buffers[t].memory);
        free(work.results[t]);
    }
    if (work.workspace)
        clReleaseMemObject(work.workspace);
    if (work.queue)
        clReleaseCommandQueue(work.queue);
    clattn_plan_release(work.plan);
    return status;
}
