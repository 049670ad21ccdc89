/* Merging partial results: one kernel a dtype, no plan. */
#include <inttypes.h>
#include <stdio.h>

#include "call.h"
#include "common/params.h"
#include "context.h"
#include "status.h"
#include "tensor.h"

/* A partial result's arrays, in the order of the kernel's parameters. */
enum {
    ARRAY_O,
    ARRAY_LSE,
    ARRAY_LOW,
    ARRAY_TO,
    ARRAY_TLSE,
    ARRAYS
};

static const char *const array_names[ARRAYS] = {"o", "lse", "lse_low", "to", "tlse"};

static const clattn_buffer *array_of(const clattn_partial *partial, int array)
{
    const clattn_buffer *const arrays[ARRAYS] = {&partial->o, &partial->lse, &partial->lse_low, &partial->to,
                                                 &partial->tlse};
    return arrays[array];
}

static int64_t rows_of(const clattn_merge_sizes *sizes)
{
    return sizes->batch * sizes->heads * sizes->queries;
}

static size_t element_of(const clattn_merge_sizes *sizes, int array)
{
    if (array == ARRAY_O || array == ARRAY_TO)
        return clattn_dtype_size(sizes->dtype);
    return sizes->dtype == CLATTN_F64 ? 8 : 4;
}

static uint64_t bytes_of(const clattn_merge_sizes *sizes, int array)
{
    const bool tangent = array == ARRAY_TO || array == ARRAY_TLSE;
    const bool wide = array == ARRAY_O || array == ARRAY_TO;
    return (uint64_t)rows_of(sizes) * (uint64_t)(tangent ? sizes->tangents : 1) *
           (uint64_t)(wide ? sizes->head_dim_v : 1) * element_of(sizes, array);
}

static clattn_status check_sizes(const clattn_merge_sizes *sizes)
{
    static const int64_t most = INT64_C(1) << 28;
    const int64_t values[] = {sizes->batch, sizes->heads, sizes->queries, sizes->head_dim_v, sizes->tangents};
    static const char *const names[] = {"batch", "heads", "queries", "head_dim_v", "tangents"};
    for (int i = 0; i < 5; i++)
        if (values[i] < 0 || values[i] > most)
            return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: %" PRId64 ", expected 0 .. %" PRId64, names[i],
                               values[i], most);
    if ((double)sizes->batch * (double)sizes->heads * (double)sizes->queries > 2147483647.0)
        return clattn_fail(CLATTN_INVALID_ARGUMENT,
                           "queries: %" PRId64 " in %" PRId64 " x %" PRId64
                           " heads, expected less than 2^31 rows in all",
                           sizes->queries, sizes->batch, sizes->heads);
    const double rows = (double)sizes->batch * (double)sizes->heads * (double)sizes->queries;
    if (rows * (double)sizes->tangents * (double)sizes->head_dim_v * 8 > 4e18)
        return clattn_fail(CLATTN_INVALID_ARGUMENT,
                           "tangents: %" PRId64 " of %g rows of %" PRId64
                           ", expected less than 2^59 elements",
                           sizes->tangents, rows, sizes->head_dim_v);
    if (!clattn_dtype_name(sizes->dtype))
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "dtype: %d, expected a clattn_dtype", (int)sizes->dtype);
    return CLATTN_SUCCESS;
}

static struct clattn_place place_of(const clattn_merge_sizes *sizes, const clattn_partial *partial, int array,
                                    const char *name, bool written)
{
    return (struct clattn_place){
        name,   *array_of(partial, array), bytes_of(sizes, array), element_of(sizes, array), true, !written,
        written};
}

static clattn_status check_partial(const clattn_context *context, const clattn_merge_sizes *sizes,
                                   const clattn_partial *partial, const char *which, bool written)
{
    for (int array = 0; array < ARRAYS; array++) {
        const clattn_buffer *buffer = array_of(partial, array);
        const uint64_t bytes = bytes_of(sizes, array);
        char name[32];
        snprintf(name, sizeof name, "%s %s", which, array_names[array]);
        if (bytes == 0 || (array == ARRAY_LOW && !buffer->memory))
            continue;
        if (!buffer->memory)
            return clattn_fail(CLATTN_INVALID_ARGUMENT,
                               "%s: NULL, expected a cl_mem of %" PRIu64 " bytes or more", name, bytes);
        if (buffer->offset % element_of(sizes, array) != 0)
            return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: offset %zu, expected a multiple of %zu", name,
                               buffer->offset, element_of(sizes, array));
        const struct clattn_place place = place_of(sizes, partial, array, name, written);
        CLATTN_TRY(clattn_check_memory(context, &place));
    }
    return CLATTN_SUCCESS;
}

static bool is_there(const clattn_merge_sizes *sizes, const clattn_partial *partial, int array)
{
    return array_of(partial, array)->memory && bytes_of(sizes, array) > 0;
}

static bool same_place(const clattn_buffer *a, const clattn_buffer *b)
{
    return a->memory == b->memory && a->offset == b->offset;
}

/* An array of the result may take the place of the same array of a part, and shares no byte with any other. */
static clattn_status check_result_apart(const clattn_merge_sizes *sizes, const clattn_partial *merged,
                                        const clattn_partial *other, const char *which)
{
    for (int array = 0; array < ARRAYS; array++)
        for (int second = 0; second < ARRAYS; second++) {
            if (!is_there(sizes, merged, array) || !is_there(sizes, other, second) ||
                (array == second && same_place(array_of(merged, array), array_of(other, second))))
                continue;
            const struct clattn_place result = place_of(sizes, merged, array, "", true);
            const struct clattn_place place = place_of(sizes, other, second, "", false);
            if (clattn_places_overlap(&result, &place))
                return clattn_fail(CLATTN_INVALID_ARGUMENT,
                                   "merged %s: overlaps %s %s, expected its very place or another",
                                   array_names[array], which, array_names[second]);
        }
    return CLATTN_SUCCESS;
}

static clattn_status get_kernel(clattn_context *context, clattn_dtype dtype, cl_kernel *kernel)
{
    static const char *const sources[] = {"common/params.h", "common/types.cl", "attention/merge.cl"};
    struct clattn_program_spec spec = {.source_count = 0};
    for (int i = 0; i < 3; i++)
        clattn_spec_add_source(&spec, sources[i]);
    clattn_spec_define(&spec, "IN_TYPE", dtype);
    clattn_spec_define(&spec, "OUT_TYPE", dtype);
    cl_program program;
    const char *note; /* a merge is as fast as memory is */
    CLATTN_TRY(clattn_program_get(context, &spec, &program, &note));
    cl_int error;
    *kernel = clCreateKernel(program, "attention_merge", &error);
    return clattn_from_cl(error, "clCreateKernel");
}

static clattn_status set_arguments(cl_kernel kernel, const clattn_merge_sizes *sizes,
                                   const clattn_partial *const partials[3])
{
    struct merge_params params = {
        .rows = rows_of(sizes), .head_dim_v = (int)sizes->head_dim_v, .tangents = (int)sizes->tangents};
    cl_uint index = 0;
    for (int n = 0; n < 3; n++) {
        const clattn_partial *p = partials[n];
        const size_t wide = clattn_dtype_size(sizes->dtype), row = element_of(sizes, ARRAY_LSE);
        params.part[n] =
            (struct merge_offsets){p->o.offset / wide, p->lse.offset / row, p->lse_low.offset / row,
                                   p->to.offset / wide, p->tlse.offset / row};
        for (int array = 0; array < ARRAYS; array++)
            CLATTN_TRY(
                clattn_from_cl(clSetKernelArg(kernel, index++, sizeof(cl_mem), &array_of(p, array)->memory),
                               "clSetKernelArg"));
    }
    return clattn_from_cl(clSetKernelArg(kernel, index, sizeof params, &params), "clSetKernelArg");
}

clattn_status clattn_enqueue_merge(clattn_context *context, cl_command_queue queue,
                                   const clattn_merge_sizes *sizes, const clattn_partial *first,
                                   const clattn_partial *second, const clattn_partial *merged,
                                   cl_uint wait_count, const cl_event *wait_list, cl_event *event)
{
    if (!context || !sizes || !first || !second || !merged)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: NULL",
                           !context  ? "context"
                           : !sizes  ? "sizes"
                           : !first  ? "first"
                           : !second ? "second"
                                     : "merged");
    CLATTN_TRY(clattn_check_queue(context, queue));
    CLATTN_TRY(clattn_check_wait_list(context, wait_count, wait_list));
    CLATTN_TRY(check_sizes(sizes));
    CLATTN_TRY(check_partial(context, sizes, first, "first", false));
    CLATTN_TRY(check_partial(context, sizes, second, "second", false));
    CLATTN_TRY(check_partial(context, sizes, merged, "merged", true));
    CLATTN_TRY(check_result_apart(sizes, merged, first, "first"));
    CLATTN_TRY(check_result_apart(sizes, merged, second, "second"));
    CLATTN_TRY(check_result_apart(sizes, merged, merged, "merged"));
    const size_t rows = (size_t)rows_of(sizes);
    if (rows == 0)
        return clattn_from_cl(clEnqueueMarkerWithWaitList(queue, wait_count, wait_list, event),
                              "clEnqueueMarkerWithWaitList");
    cl_kernel kernel;
    CLATTN_TRY(get_kernel(context, sizes->dtype, &kernel));
    clattn_status status =
        set_arguments(kernel, sizes, (const clattn_partial *const[]){first, second, merged});
    if (status == CLATTN_SUCCESS)
        status = clattn_from_cl(
            clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &rows, NULL, wait_count, wait_list, event),
            "clEnqueueNDRangeKernel");
    clReleaseKernel(kernel);
    return status;
}
