/* Enqueueing a plan: the caller's buffers checked, bound to every launch, launches chained. */
#include <inttypes.h>
#include <stdlib.h>

#include "call.h"
#include "operations.h"
#include "plan.h"
#include "status.h"
#include "tensor.h"

/* What every kernel gets: a memory object and an element offset for each slot. */
struct bindings {
    cl_mem memory[SLOT_COUNT];
    struct buffer_offsets offsets;
    struct clattn_place places[CLATTN_TENSOR_COUNT + 1]; /* tensors with elements, and the workspace */
    int place_count;
};

/* What the forward part of a backward call writes, its backward part reads. */
static bool is_read_again(const struct clattn_plan *plan, clattn_tensor tensor)
{
    const bool backward = (USED_BY(plan->operation) & USED_BY_GRADIENTS) != 0;
    return backward && tensor >= CLATTN_O && tensor <= CLATTN_TLSE;
}

static struct clattn_place place_of(const struct clattn_plan *plan, clattn_tensor tensor,
                                    const clattn_buffer *buffer)
{
    const struct clattn_extent extent = clattn_tensor_extent(&plan->problem, tensor);
    const bool written = clattn_problem_is_output(&plan->problem, plan->operation, tensor);
    return (struct clattn_place){
        .name = clattn_tensor_name(tensor),
        .buffer = *buffer,
        .bytes = clattn_problem_bytes(&plan->problem, tensor),
        .element = clattn_problem_element_size(&plan->problem, tensor),
        .dense = clattn_extent_is_dense(&extent),
        .read = !written || is_read_again(plan, tensor),
        .written = written,
    };
}

static clattn_status bind_place(const struct clattn_plan *plan, const struct clattn_place *place,
                                struct bindings *bindings)
{
    CLATTN_TRY(clattn_check_memory(plan->context, place));
    bindings->places[bindings->place_count++] = *place;
    return CLATTN_SUCCESS;
}

static clattn_status bind_tensor(const struct clattn_plan *plan, clattn_tensor tensor,
                                 const clattn_buffer *buffer, struct bindings *bindings)
{
    const char *name = clattn_tensor_name(tensor);
    const size_t bytes = clattn_problem_bytes(&plan->problem, tensor);
    const size_t element = clattn_problem_element_size(&plan->problem, tensor);
    if (!plan->problem.present[tensor]) {
        if (buffer->memory)
            return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: given, but absent from the plan's problem",
                               name);
        return CLATTN_SUCCESS;
    }
    if (bytes == 0)
        return CLATTN_SUCCESS;
    if (!buffer->memory)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: NULL, expected a cl_mem of %zu bytes or more", name,
                           bytes);
    if (buffer->offset % element != 0)
        return clattn_fail(CLATTN_INVALID_ARGUMENT,
                           "%s: offset %zu, expected a multiple of the element size %zu", name,
                           buffer->offset, element);
    const struct clattn_place place = place_of(plan, tensor, buffer);
    CLATTN_TRY(bind_place(plan, &place, bindings));
    bindings->memory[tensor] = buffer->memory;
    bindings->offsets.at[tensor] = buffer->offset / element;
    return CLATTN_SUCCESS;
}

static size_t row_size(const struct clattn_plan *plan) { return plan->problem.dtype == CLATTN_F64 ? 8 : 4; }

/* Tensors in the workspace are of the row type. */
static void bind_scratch(const struct clattn_plan *plan, cl_mem workspace, struct bindings *bindings)
{
    for (int slot = 0; slot < SLOT_COUNT; slot++)
        if (plan->scratch_at[slot] >= 0) {
            bindings->memory[slot] = workspace;
            bindings->offsets.at[slot] = (uint64_t)plan->scratch_at[slot] / row_size(plan);
        }
}

static clattn_status bind_tensors(const struct clattn_plan *plan, const clattn_buffer *buffers,
                                  struct bindings *bindings)
{
    *bindings = (struct bindings){.place_count = 0};
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        CLATTN_TRY(bind_tensor(plan, (clattn_tensor)t, &buffers[t], bindings));
    return CLATTN_SUCCESS;
}

static clattn_status bind(const struct clattn_plan *plan, const clattn_buffer *buffers, cl_mem workspace,
                          struct bindings *bindings)
{
    CLATTN_TRY(bind_tensors(plan, buffers, bindings));
    if (plan->workspace_bytes == 0)
        return clattn_check_apart(bindings->places, bindings->place_count);
    if (!workspace)
        return clattn_fail(CLATTN_INVALID_ARGUMENT,
                           "workspace: NULL, expected a cl_mem of %" PRIu64 " bytes or more",
                           plan->workspace_bytes);
    const struct clattn_place scratch = {"workspace", {workspace, 0}, plan->workspace_bytes, 1, true, true,
                                         true};
    CLATTN_TRY(bind_place(plan, &scratch, bindings));
    bind_scratch(plan, workspace, bindings);
    return clattn_check_apart(bindings->places, bindings->place_count);
}

static clattn_status set_arguments(const struct clattn_plan *plan, const struct clattn_launch *launch,
                                   const struct bindings *bindings)
{
    cl_int error = CL_SUCCESS;
    for (cl_uint slot = 0; slot < SLOT_COUNT && error == CL_SUCCESS; slot++)
        error = clSetKernelArg(launch->kernel, slot, sizeof(cl_mem), &bindings->memory[slot]);
    if (error == CL_SUCCESS)
        error = clSetKernelArg(launch->kernel, SLOT_COUNT, sizeof(cl_mem), &plan->params);
    if (error == CL_SUCCESS)
        error = clSetKernelArg(launch->kernel, SLOT_COUNT + 1, sizeof bindings->offsets, &bindings->offsets);
    if (error == CL_SUCCESS)
        error = clSetKernelArg(launch->kernel, SLOT_COUNT + 2, sizeof launch->tangent_first,
                               &launch->tangent_first);
    return clattn_from_cl(error, "clSetKernelArg");
}

static clattn_status enqueue_launch(const struct clattn_launch *launch, cl_command_queue queue,
                                    cl_uint wait_count, const cl_event *wait_list, cl_event *event)
{
    const size_t *local = launch->local ? &launch->local : NULL;
    return clattn_from_cl(clEnqueueNDRangeKernel(queue, launch->kernel, 1, NULL, &launch->global, local,
                                                 wait_count, wait_list, event),
                          "clEnqueueNDRangeKernel");
}

/* Each launch waits for the one before it, so that out-of-order queues are as good as others. */
static clattn_status enqueue_launches(const struct clattn_plan *plan, const struct bindings *bindings,
                                      cl_command_queue queue, cl_uint wait_count, const cl_event *wait_list,
                                      cl_event *event)
{
    cl_event before = NULL;
    clattn_status status = CLATTN_SUCCESS;
    for (int i = 0; i < plan->launch_count && status == CLATTN_SUCCESS; i++) {
        const struct clattn_launch *launch = &plan->launches[i];
        const bool last = i == plan->launch_count - 1;
        cl_event done = NULL;
        status = set_arguments(plan, launch, bindings);
        if (status == CLATTN_SUCCESS)
            status = enqueue_launch(launch, queue, before ? 1 : wait_count, before ? &before : wait_list,
                                    last ? event : &done);
        if (before)
            clReleaseEvent(before);
        before = done;
    }
    if (before)
        clReleaseEvent(before);
    return status;
}

static clattn_status check_call(const struct clattn_plan *plan, cl_command_queue queue,
                                const clattn_buffer *buffers)
{
    if (!plan)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "plan: NULL, expected a clattn_plan");
    if (!buffers)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "buffers: NULL, expected CLATTN_TENSOR_COUNT of them");
    return clattn_check_queue(plan->context, queue);
}

clattn_status clattn_enqueue(const clattn_plan *plan, cl_command_queue queue,
                             const clattn_buffer buffers[CLATTN_TENSOR_COUNT], cl_mem workspace,
                             cl_uint wait_count, const cl_event *wait_list, cl_event *event)
{
    CLATTN_TRY(check_call(plan, queue, buffers));
    CLATTN_TRY(clattn_check_wait_list(plan->context, wait_count, wait_list));
    struct bindings bindings;
    CLATTN_TRY(bind(plan, buffers, workspace, &bindings));
    if (plan->launch_count == 0)
        return clattn_from_cl(clEnqueueMarkerWithWaitList(queue, wait_count, wait_list, event),
                              "clEnqueueMarkerWithWaitList");
    pthread_mutex_t *lock = (pthread_mutex_t *)&plan->lock;
    pthread_mutex_lock(lock);
    const clattn_status status = enqueue_launches(plan, &bindings, queue, wait_count, wait_list, event);
    pthread_mutex_unlock(lock);
    return status;
}

/* ---- counting tiles ---- */

static clattn_status sum_counts(cl_command_queue queue, cl_mem memory, int64_t tiles,
                                clattn_tile_count *count)
{
    const size_t bytes = (size_t)tiles * 2 * sizeof(cl_int);
    cl_int *counts = malloc(bytes);
    if (!counts)
        return clattn_fail(CLATTN_OUT_OF_MEMORY, "host memory for %zu bytes of counts", bytes);
    const cl_int error = clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, bytes, counts, 0, NULL, NULL);
    for (int64_t n = 0; n < tiles && error == CL_SUCCESS; n++) {
        count->visited += (uint64_t)counts[2 * n];
        count->skipped += (uint64_t)(counts[2 * n + 1] - counts[2 * n]);
    }
    free(counts);
    return clattn_from_cl(error, "clEnqueueReadBuffer");
}

static clattn_status count_tiles(const struct clattn_plan *plan, cl_command_queue queue,
                                 const struct clattn_launch *launch, struct bindings *bindings, int64_t tiles,
                                 clattn_tile_count *count)
{
    cl_mem memory;
    CLATTN_TRY(clattn_create_buffer(plan->context, "tile counts", CL_MEM_READ_WRITE,
                                    (uint64_t)tiles * 2 * sizeof(cl_int), NULL, &memory));
    bindings->memory[SLOT_TILE_COUNTS] = memory;
    cl_event done = NULL;
    clattn_status status = set_arguments(plan, launch, bindings);
    if (status == CLATTN_SUCCESS)
        status = enqueue_launch(launch, queue, 0, NULL, &done);
    if (status == CLATTN_SUCCESS)
        status = clattn_from_cl(clWaitForEvents(1, &done), "clWaitForEvents");
    if (status == CLATTN_SUCCESS)
        status = sum_counts(queue, memory, tiles, count);
    if (done)
        clReleaseEvent(done);
    clReleaseMemObject(memory);
    return status;
}

clattn_status clattn_count_tiles(const clattn_plan *plan, cl_command_queue queue,
                                 const clattn_buffer buffers[CLATTN_TENSOR_COUNT], clattn_tile_count *count)
{
    CLATTN_TRY(check_call(plan, queue, buffers));
    if (!count)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "count: NULL, expected where to put the counts");
    *count = (clattn_tile_count){0, 0};
    struct bindings bindings;
    CLATTN_TRY(bind_tensors(plan, buffers, &bindings));
    struct clattn_launch launch;
    int64_t tiles;
    CLATTN_TRY(clattn_plan_counting(plan, &launch, &tiles));
    const clattn_status status =
        tiles == 0 ? CLATTN_SUCCESS : count_tiles(plan, queue, &launch, &bindings, tiles, count);
    clReleaseKernel(launch.kernel);
    return status;
}
