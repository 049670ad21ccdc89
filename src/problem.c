/* Problems: the initialiser, and every check that needs no device. */
#include "problem.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "status.h"
#include "tensor.h"

#define MAX_BATCH_OR_HEADS (INT64_C(1) << 24)
#define MAX_HEAD_DIM (INT64_C(1) << 16)
#define MAX_TANGENTS INT64_C(1024)
#define MAX_STRIDE (INT64_C(1) << 44)
#define MAX_LOGIT_DATA (INT64_C(1) << 44)

void clattn_problem_init(clattn_problem *problem, clattn_operation operation, const clattn_sizes *sizes)
{
    if (!problem)
        return;
    *problem = (clattn_problem){.batch = 0};
    if (!sizes || !clattn_operation_name(operation))
        return;
    *problem = (clattn_problem){
        .batch = sizes->batch,
        .heads_q = sizes->heads_q,
        .heads_kv = sizes->heads_kv,
        .queries = sizes->queries,
        .keys = sizes->keys,
        .head_dim = sizes->head_dim,
        .head_dim_v = sizes->head_dim_v,
        .tangents = 1,
        .scale = sizes->head_dim > 0 ? 1 / sqrt((double)sizes->head_dim) : 1,
        .window_left = -1,
        .window_right = -1,
        .block_rows = 1,
        .block_columns = 1,
    };
    static const clattn_tensor always[] = {CLATTN_Q, CLATTN_K, CLATTN_V};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        problem->present[always[i]] = true;
    problem->present[CLATTN_DO] = (USED_BY(operation) & USED_BY_GRADIENTS) != 0;
    for (int t = CLATTN_O; t < CLATTN_TENSOR_COUNT; t++) {
        const struct clattn_tensor_facts *facts = clattn_tensor_facts((clattn_tensor)t);
        problem->present[t] =
            facts->primal < 0 && (facts->used_by & USED_BY(operation)) && t != CLATTN_LSE_LOW;
    }
    clattn_problem_set_contiguous(problem, false);
}

static int64_t at_least_1(int64_t size) { return size > 0 ? size : 1; }

/* Strides of a contiguous [batch,head,row,column] array, or [batch,row,head,column]. Never 0, which would
 * broadcast, also where an axis is empty. */
static clattn_strides contiguous(const int64_t shape[4], bool seq_major)
{
    const int64_t heads = at_least_1(shape[1]), rows = at_least_1(shape[2]), columns = at_least_1(shape[3]);
    clattn_strides strides = {.column = 1};
    strides.row = seq_major ? clattn_times(heads, columns) : columns;
    strides.head = seq_major ? columns : clattn_times(rows, columns);
    strides.batch = clattn_times(heads, clattn_times(rows, columns));
    strides.tangent = clattn_times(at_least_1(shape[0]), strides.batch);
    return strides;
}

void clattn_problem_set_contiguous(clattn_problem *problem, bool seq_major)
{
    if (!problem)
        return;
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        const enum clattn_axes axes = clattn_tensor_facts((clattn_tensor)t)->axes;
        const bool pairwise = axes == AXES_PAIRS || axes == AXES_BLOCKS;
        /* a stride of 0 would read as a broadcast axis */
        problem->strides[t] = (clattn_strides){1, 1, 1, 1, 1};
        int64_t shape[5];
        if (clattn_problem_shape(problem, (clattn_tensor)t, shape) == 4)
            problem->strides[t] = contiguous(shape, seq_major && !pairwise);
    }
}

static clattn_status check_size(const char *name, int64_t value, int64_t least, int64_t most)
{
    if (value >= least && value <= most)
        return CLATTN_SUCCESS;
    return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: %" PRId64 ", expected %" PRId64 " .. %" PRId64, name,
                       value, least, most);
}

/* Work-items and scratch go by the rows of all heads: within 2^31 of them no product of theirs leaves 64 bits. */
static clattn_status check_rows(const clattn_problem *p, const char *name, int64_t heads, int64_t rows)
{
    const int64_t batch = p->present[CLATTN_CU_SEQLENS_Q] ? 1 : p->batch;
    if ((double)batch * (double)heads * (double)rows < 2147483648.0)
        return CLATTN_SUCCESS;
    return clattn_fail(CLATTN_INVALID_ARGUMENT,
                       "%s: %" PRId64 " in %" PRId64 " x %" PRId64
                       " heads, expected less than 2^31 rows in all",
                       name, rows, batch, heads);
}

static clattn_status check_sizes(const clattn_problem *p)
{
    CLATTN_TRY(check_size("batch", p->batch, 0, MAX_BATCH_OR_HEADS));
    CLATTN_TRY(check_size("heads_q", p->heads_q, 0, MAX_BATCH_OR_HEADS));
    CLATTN_TRY(check_size("heads_kv", p->heads_kv, 0, MAX_BATCH_OR_HEADS));
    CLATTN_TRY(check_size("queries", p->queries, 0, CLATTN_MAX_ROWS));
    CLATTN_TRY(check_size("keys", p->keys, 0, CLATTN_MAX_ROWS));
    CLATTN_TRY(check_size("head_dim", p->head_dim, 1, MAX_HEAD_DIM));
    CLATTN_TRY(check_size("head_dim_v", p->head_dim_v, 1, MAX_HEAD_DIM));
    CLATTN_TRY(check_size("tangents", p->tangents, 1, MAX_TANGENTS));
    if (p->heads_kv == 0 ? p->heads_q != 0 : p->heads_q % p->heads_kv != 0)
        return clattn_fail(CLATTN_INVALID_ARGUMENT,
                           "heads_q: %" PRId64 ", expected a multiple of heads_kv, which is %" PRId64,
                           p->heads_q, p->heads_kv);
    CLATTN_TRY(check_rows(p, "queries", p->heads_q, p->queries));
    return check_rows(p, "keys", p->heads_kv, p->keys);
}

static clattn_status check_dtypes(const clattn_problem *p)
{
    if (!clattn_dtype_name(p->dtype))
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "dtype: %d, expected a clattn_dtype", (int)p->dtype);
    if (p->out_dtype != p->dtype && p->out_dtype != CLATTN_F32)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "out_dtype: %d, expected dtype (%s) or f32",
                           (int)p->out_dtype, clattn_dtype_name(p->dtype));
    if (p->bias_dtype != p->dtype && p->bias_dtype != CLATTN_F32)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "bias_dtype: %d, expected dtype (%s) or f32",
                           (int)p->bias_dtype, clattn_dtype_name(p->dtype));
    return CLATTN_SUCCESS;
}

static clattn_status check_numbers(const clattn_problem *p)
{
    const bool wide = p->dtype == CLATTN_F64;
    const double largest = wide ? 1.7976931348623157e308 : 3.4028234663852886e38;
    const char *type = wide ? "f64" : "f32";
    if (!isfinite(p->scale) || fabs(p->scale) > largest)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "scale: %g, expected -%g .. %g, the range of %s",
                           p->scale, largest, largest, type);
    if (!isfinite(p->softcap) || p->softcap < 0 || p->softcap > largest)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "softcap: %g, expected 0 (none) .. %g, the range of %s",
                           p->softcap, largest, type);
    if (p->softcap > 0 && p->dtype != CLATTN_F64 && (float)p->softcap == 0)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "softcap: %g, expected 0 or a number that f32 can hold",
                           p->softcap);
    if (!(p->dropout >= 0 && p->dropout < 1))
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "dropout: %g, expected 0 <= p < 1", p->dropout);
    return CLATTN_SUCCESS;
}

static clattn_status check_position(const clattn_problem *p)
{
    if (p->causal != CLATTN_CAUSAL_NONE && p->causal != CLATTN_CAUSAL_TOP_LEFT &&
        p->causal != CLATTN_CAUSAL_BOTTOM_RIGHT)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "causal: %d, expected a clattn_causal", (int)p->causal);
    if (p->window_left < -1)
        return clattn_fail(CLATTN_INVALID_ARGUMENT,
                           "window_left: %" PRId64 ", expected -1 (unbounded) or a number of keys",
                           p->window_left);
    if (p->window_right < -1)
        return clattn_fail(CLATTN_INVALID_ARGUMENT,
                           "window_right: %" PRId64 ", expected -1 (unbounded) or a number of keys",
                           p->window_right);
    return CLATTN_SUCCESS;
}

/* What a forward call is said to have left for the backward one. */
static clattn_status check_given(const clattn_problem *p, clattn_operation operation)
{
    static const clattn_tensor given[] = {CLATTN_O, CLATTN_LSE, CLATTN_TO, CLATTN_TLSE};
    if (!p->forward_given || !(USED_BY(operation) & USED_BY_GRADIENTS))
        return CLATTN_SUCCESS;
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (!p->present[given[i]] && (clattn_tensor_facts(given[i])->used_by & USED_BY(operation)))
            return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: absent, but forward_given says that %s gets it",
                               clattn_tensor_name(given[i]), clattn_operation_name(operation));
    return CLATTN_SUCCESS;
}

/* A tensor is there only where the operation uses it and its primal is there. */
static clattn_status check_presence(const clattn_problem *p, clattn_operation operation)
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        const struct clattn_tensor_facts *facts = clattn_tensor_facts((clattn_tensor)t);
        if (!p->present[t])
            continue;
        if (!(facts->used_by & USED_BY(operation)))
            return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: present, but %s does not use it", facts->name,
                               clattn_operation_name(operation));
        if (facts->primal >= 0 && !p->present[facts->primal])
            return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: present without %s", facts->name,
                               clattn_tensor_name((clattn_tensor)facts->primal));
    }
    static const clattn_tensor needed[] = {CLATTN_Q, CLATTN_K, CLATTN_V, CLATTN_DO};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!p->present[needed[i]] && (clattn_tensor_facts(needed[i])->used_by & USED_BY(operation)))
            return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: absent, but %s needs it",
                               clattn_tensor_name(needed[i]), clattn_operation_name(operation));
    return check_given(p, operation);
}

static const char *const axis_names[] = {"tangent", "batch", "head", "row", "column"};

/* No two elements of an output may share memory: each axis steps over all that the axes of smaller stride span. */
static clattn_status check_overlap(clattn_tensor tensor, const struct clattn_extent *extent)
{
    int axes[5];
    int64_t span = 1;
    const int count = clattn_sorted_axes(extent, axes);
    for (int i = 0; i < count; i++) {
        const int64_t size = extent->size[axes[i]], stride = extent->stride[axes[i]];
        if (stride < span)
            return clattn_fail(CLATTN_INVALID_ARGUMENT,
                               "%s: %s stride %" PRId64 " over %" PRId64
                               " elements, expected an output without overlap: %" PRId64 " or more",
                               clattn_tensor_name(tensor), axis_names[axes[i]], stride, size, span);
        span += clattn_times(size - 1, stride);
    }
    return CLATTN_SUCCESS;
}

static clattn_status check_extent(const clattn_problem *p, clattn_tensor tensor, bool output)
{
    const struct clattn_extent extent = clattn_tensor_extent(p, tensor);
    double elements = 1;
    bool empty = false;
    for (int axis = 0; axis < 5; axis++) {
        if (extent.stride[axis] < 0 || extent.stride[axis] > MAX_STRIDE)
            return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: %s stride %" PRId64 ", expected 0 .. %" PRId64,
                               clattn_tensor_name(tensor), axis_names[axis], extent.stride[axis], MAX_STRIDE);
        elements += (double)(extent.size[axis] > 0 ? extent.size[axis] - 1 : 0) * (double)extent.stride[axis];
        empty = empty || extent.size[axis] == 0;
    }
    if (elements * 8 > 4e18)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: spans %g elements, expected less than 2^59",
                           clattn_tensor_name(tensor), elements);
    return output && !empty ? check_overlap(tensor, &extent) : CLATTN_SUCCESS;
}

/* Options that need each other, or exclude each other. */
static clattn_status check_options(const clattn_problem *p)
{
    static const clattn_tensor pairs[][2] = {{CLATTN_Q_SEGMENTS, CLATTN_KV_SEGMENTS},
                                             {CLATTN_CU_SEQLENS_Q, CLATTN_CU_SEQLENS_K}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (p->present[pairs[i][0]] != p->present[pairs[i][1]]) {
            const bool first = p->present[pairs[i][0]];
            return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: present without %s",
                               clattn_tensor_name(pairs[i][first ? 0 : 1]),
                               clattn_tensor_name(pairs[i][first ? 1 : 0]));
        }
    if (p->present[CLATTN_CU_SEQLENS_Q] && p->present[CLATTN_KV_LENGTHS])
        return clattn_fail(CLATTN_INVALID_ARGUMENT,
                           "kv_lengths: present with cu_seqlens_q, expected one of them");
    CLATTN_TRY(check_size("logit_data_count", p->logit_data_count, 0, MAX_LOGIT_DATA));
    if (p->present[CLATTN_LOGIT_DATA] && !p->logit)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "logit_data: present without logit");
    if (!p->present[CLATTN_BLOCK_MASK])
        return CLATTN_SUCCESS;
    CLATTN_TRY(check_size("block_rows", p->block_rows, 1, CLATTN_MAX_ROWS));
    return check_size("block_columns", p->block_columns, 1, CLATTN_MAX_ROWS);
}

clattn_status clattn_problem_check(const clattn_problem *problem, clattn_operation operation)
{
    if (!problem)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "problem: NULL, expected a clattn_problem");
    if (!clattn_operation_name(operation))
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "operation: %d, expected a clattn_operation",
                           (int)operation);
    CLATTN_TRY(check_sizes(problem));
    CLATTN_TRY(check_dtypes(problem));
    CLATTN_TRY(check_numbers(problem));
    CLATTN_TRY(check_position(problem));
    CLATTN_TRY(check_presence(problem, operation));
    CLATTN_TRY(check_options(problem));
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        if (problem->present[t])
            CLATTN_TRY(check_extent(problem, (clattn_tensor)t,
                                    clattn_problem_is_output(problem, operation, (clattn_tensor)t)));
    return CLATTN_SUCCESS;
}
