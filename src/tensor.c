/* The table of tensors, and the shapes, strides and sizes that follow from it and a problem. */
#include "tensor.h"

#include <assert.h>

#include "common/params.h"

#define SAME_SLOT(NAME, name, type)                                                                          \
    static_assert((int)SLOT_##NAME == (int)CLATTN_##NAME,                                                    \
                  "params.h and clattn.h list the tensors in the same order");
ATTENTION_CALL_TENSORS(SAME_SLOT)
static_assert((int)SLOT_O_FULL == (int)CLATTN_TENSOR_COUNT, "internal tensors follow the public ones");

#define INPUT(name, axes, element)                                                                           \
    {                                                                                                        \
        name, axes, element, false, false, USED_BY_ALL, -1                                                   \
    }
#define TANGENT(name, axes, element, primal)                                                                 \
    {                                                                                                        \
        name, axes, element, true, false, USED_BY_TANGENTS, primal                                           \
    }
#define RESULT(name, axes, element, used_by)                                                                 \
    {                                                                                                        \
        name, axes, element, false, true, used_by, -1                                                        \
    }
#define TANGENT_RESULT(name, axes, element, used_by, primal)                                                 \
    {                                                                                                        \
        name, axes, element, true, true, used_by, primal                                                     \
    }

static const struct clattn_tensor_facts table[CLATTN_TENSOR_COUNT] = {
    [CLATTN_Q] = INPUT("q", AXES_QUERY, ELEMENT_IN),
    [CLATTN_K] = INPUT("k", AXES_KEY, ELEMENT_IN),
    [CLATTN_V] = INPUT("v", AXES_VALUE, ELEMENT_IN),
    [CLATTN_BIAS] = INPUT("bias", AXES_PAIRS, ELEMENT_BIAS),
    [CLATTN_MASK] = INPUT("mask", AXES_PAIRS, ELEMENT_BYTE),
    [CLATTN_KV_LENGTHS] = INPUT("kv_lengths", AXES_BATCH, ELEMENT_INT),
    [CLATTN_Q_SEGMENTS] = INPUT("q_segments", AXES_BATCH_ROWS, ELEMENT_INT),
    [CLATTN_KV_SEGMENTS] = INPUT("kv_segments", AXES_BATCH_KEYS, ELEMENT_INT),
    [CLATTN_CU_SEQLENS_Q] = INPUT("cu_seqlens_q", AXES_OFFSETS, ELEMENT_INT),
    [CLATTN_CU_SEQLENS_K] = INPUT("cu_seqlens_k", AXES_OFFSETS, ELEMENT_INT),
    [CLATTN_ALIBI] = INPUT("alibi", AXES_HEADS, ELEMENT_F32),
    [CLATTN_BLOCK_MASK] = INPUT("block_mask", AXES_BLOCKS, ELEMENT_BYTE),
    [CLATTN_SINK] = INPUT("sink", AXES_HEADS, ELEMENT_ROW),
    [CLATTN_LOGIT_DATA] = INPUT("logit_data", AXES_ANY, ELEMENT_F32),
    [CLATTN_TQ] = TANGENT("tq", AXES_QUERY, ELEMENT_IN, CLATTN_Q),
    [CLATTN_TK] = TANGENT("tk", AXES_KEY, ELEMENT_IN, CLATTN_K),
    [CLATTN_TV] = TANGENT("tv", AXES_VALUE, ELEMENT_IN, CLATTN_V),
    [CLATTN_TBIAS] = TANGENT("tbias", AXES_PAIRS, ELEMENT_BIAS, CLATTN_BIAS),
    [CLATTN_TSINK] = TANGENT("tsink", AXES_HEADS, ELEMENT_ROW, CLATTN_SINK),
    [CLATTN_DO] = {"do", AXES_OUTPUT, ELEMENT_IN, false, false, USED_BY_GRADIENTS, -1},
    [CLATTN_DLSE] = {"dlse", AXES_ROWS, ELEMENT_ROW, false, false, USED_BY_GRADIENTS, -1},
    [CLATTN_TDO] = {"tdo", AXES_OUTPUT, ELEMENT_IN, true, false, USED_BY(CLATTN_HVP), CLATTN_DO},
    [CLATTN_TDLSE] = {"tdlse", AXES_ROWS, ELEMENT_ROW, true, false, USED_BY(CLATTN_HVP), -1},
    [CLATTN_O] = RESULT("o", AXES_OUTPUT, ELEMENT_OUT, USED_BY_ALL),
    [CLATTN_LSE] = RESULT("lse", AXES_ROWS, ELEMENT_ROW, USED_BY_ALL),
    [CLATTN_LSE_LOW] = RESULT("lse_low", AXES_ROWS, ELEMENT_ROW, USED_BY_ALL),
    [CLATTN_TO] = TANGENT_RESULT("to", AXES_OUTPUT, ELEMENT_OUT, USED_BY_TANGENTS, -1),
    [CLATTN_TLSE] = TANGENT_RESULT("tlse", AXES_ROWS, ELEMENT_ROW, USED_BY_TANGENTS, -1),
    [CLATTN_DQ] = RESULT("dq", AXES_QUERY, ELEMENT_OUT, USED_BY_GRADIENTS),
    [CLATTN_DK] = RESULT("dk", AXES_KEY, ELEMENT_OUT, USED_BY_GRADIENTS),
    [CLATTN_DV] = RESULT("dv", AXES_VALUE, ELEMENT_OUT, USED_BY_GRADIENTS),
    [CLATTN_DBIAS] = {"dbias", AXES_PAIRS, ELEMENT_ROW, false, true, USED_BY_GRADIENTS, CLATTN_BIAS},
    [CLATTN_DSINK] = {"dsink", AXES_HEADS, ELEMENT_ROW, false, true, USED_BY_GRADIENTS, CLATTN_SINK},
    [CLATTN_TDQ] = TANGENT_RESULT("tdq", AXES_QUERY, ELEMENT_OUT, USED_BY(CLATTN_HVP), -1),
    [CLATTN_TDK] = TANGENT_RESULT("tdk", AXES_KEY, ELEMENT_OUT, USED_BY(CLATTN_HVP), -1),
    [CLATTN_TDV] = TANGENT_RESULT("tdv", AXES_VALUE, ELEMENT_OUT, USED_BY(CLATTN_HVP), -1),
    [CLATTN_TDBIAS] = TANGENT_RESULT("tdbias", AXES_PAIRS, ELEMENT_ROW, USED_BY(CLATTN_HVP), CLATTN_BIAS),
    [CLATTN_TDSINK] = TANGENT_RESULT("tdsink", AXES_HEADS, ELEMENT_ROW, USED_BY(CLATTN_HVP), CLATTN_SINK),
};

const struct clattn_tensor_facts *clattn_tensor_facts(clattn_tensor tensor)
{
    assert((unsigned)tensor < CLATTN_TENSOR_COUNT);
    return &table[tensor];
}

const char *clattn_tensor_name(clattn_tensor tensor)
{
    return (unsigned)tensor < CLATTN_TENSOR_COUNT ? table[tensor].name : NULL;
}

const char *clattn_operation_name(clattn_operation operation)
{
    static const char *const names[] = {"forward", "jvp", "vjp", "hvp"};
    return (unsigned)operation < CLATTN_OPERATION_COUNT ? names[operation] : NULL;
}

const char *clattn_dtype_name(clattn_dtype dtype)
{
    static const char *const names[] = {"f32", "f16", "bf16", "f64"};
    return (unsigned)dtype < CLATTN_DTYPE_COUNT ? names[dtype] : NULL;
}

size_t clattn_dtype_size(clattn_dtype dtype)
{
    switch (dtype) {
    case CLATTN_F16:
    case CLATTN_BF16:
        return 2;
    case CLATTN_F64:
        return 8;
    default:
        return 4;
    }
}

static bool is_tensor(clattn_tensor tensor) { return (unsigned)tensor < CLATTN_TENSOR_COUNT; }

size_t clattn_problem_element_size(const clattn_problem *problem, clattn_tensor tensor)
{
    if (!problem || !is_tensor(tensor))
        return 0;
    switch (table[tensor].element) {
    case ELEMENT_IN:
        return clattn_dtype_size(problem->dtype);
    case ELEMENT_OUT:
        return clattn_dtype_size(problem->out_dtype);
    case ELEMENT_BIAS:
        return clattn_dtype_size(problem->bias_dtype);
    case ELEMENT_ROW:
        return problem->dtype == CLATTN_F64 ? 8 : 4;
    case ELEMENT_BYTE:
        return 1;
    default:
        return 4;
    }
}

/* A packed batch is one long batch element to every tensor that is laid out by position. */
static int64_t laid_out_batch(const clattn_problem *problem)
{
    return problem->present[CLATTN_CU_SEQLENS_Q] ? 1 : problem->batch;
}

/* No sum that could overflow: sizes may be anything before they are checked. */
static int64_t blocks(int64_t rows, int64_t block)
{
    return block > 0 ? rows / block + (rows % block > 0) : 0;
}

static int64_t one_more(int64_t size) { return size < INT64_MAX ? size + 1 : size; }

/* An axis of a mask or bias: 1 where its stride is 0. */
static int64_t broadcast(int64_t size, int64_t stride) { return stride == 0 ? 1 : size; }

int clattn_problem_shape(const clattn_problem *p, clattn_tensor tensor, int64_t shape[5])
{
    if (!p || !is_tensor(tensor) || !shape)
        return 0;
    const int64_t batch = laid_out_batch(p);
    /* gradients of the bias have the bias's shape, whatever their own strides */
    const bool bias_like = tensor == CLATTN_DBIAS || tensor == CLATTN_TDBIAS || tensor == CLATTN_TBIAS;
    const clattn_strides *strides = &p->strides[bias_like ? CLATTN_BIAS : tensor];
    switch (table[tensor].axes) {
    case AXES_QUERY:
        shape[0] = batch, shape[1] = p->heads_q, shape[2] = p->queries, shape[3] = p->head_dim;
        return 4;
    case AXES_KEY:
        shape[0] = batch, shape[1] = p->heads_kv, shape[2] = p->keys, shape[3] = p->head_dim;
        return 4;
    case AXES_VALUE:
        shape[0] = batch, shape[1] = p->heads_kv, shape[2] = p->keys, shape[3] = p->head_dim_v;
        return 4;
    case AXES_OUTPUT:
        shape[0] = batch, shape[1] = p->heads_q, shape[2] = p->queries, shape[3] = p->head_dim_v;
        return 4;
    case AXES_PAIRS:
        shape[0] = broadcast(batch, strides->batch), shape[1] = broadcast(p->heads_q, strides->head);
        shape[2] = broadcast(p->queries, strides->row), shape[3] = broadcast(p->keys, strides->column);
        return 4;
    case AXES_BLOCKS:
        shape[0] = broadcast(batch, strides->batch), shape[1] = broadcast(p->heads_q, strides->head);
        shape[2] = blocks(p->queries, p->block_rows), shape[3] = blocks(p->keys, p->block_columns);
        return 4;
    case AXES_ROWS:
        shape[0] = batch, shape[1] = p->heads_q, shape[2] = p->queries;
        return 3;
    case AXES_BATCH:
        shape[0] = p->batch;
        return 1;
    case AXES_OFFSETS:
        shape[0] = one_more(p->batch);
        return 1;
    case AXES_BATCH_ROWS:
        shape[0] = batch, shape[1] = p->queries;
        return 2;
    case AXES_BATCH_KEYS:
        shape[0] = batch, shape[1] = p->keys;
        return 2;
    case AXES_HEADS:
        shape[0] = p->heads_q;
        return 1;
    case AXES_ANY:
        shape[0] = p->logit_data_count;
        return 1;
    }
    return 0;
}

int64_t clattn_times(int64_t a, int64_t b)
{
    static const int64_t most = INT64_C(1) << 62;
    return b != 0 && a > most / b ? most : a * b;
}

struct clattn_extent clattn_tensor_extent(const clattn_problem *problem, clattn_tensor tensor)
{
    const struct clattn_tensor_facts *facts = &table[tensor];
    const clattn_strides *given = &problem->strides[tensor];
    struct clattn_extent extent = {{facts->tangent ? problem->tangents : 1, 1, 1, 1, 1}, {0}};
    int64_t shape[5] = {0};
    const int rank = clattn_problem_shape(problem, tensor, shape);
    for (int axis = 0; axis < rank; axis++)
        extent.size[5 - rank + axis] = shape[axis];
    const bool always_contiguous = rank < 4 || (facts->result && facts->axes == AXES_PAIRS);
    if (!always_contiguous) {
        const int64_t strides[5] = {
            facts->tangent ? given->tangent : 0, given->batch, given->head, given->row,
            facts->axes == AXES_PAIRS || facts->axes == AXES_BLOCKS ? given->column : 1};
        for (int axis = 0; axis < 5; axis++)
            extent.stride[axis] = strides[axis];
        return extent;
    }
    int64_t stride = 1;
    for (int axis = 4; axis > 4 - rank; axis--) {
        extent.stride[axis] = stride;
        stride = clattn_times(stride, extent.size[axis] > 0 ? extent.size[axis] : 1);
    }
    extent.stride[0] = facts->tangent ? stride : 0;
    return extent;
}

int clattn_sorted_axes(const struct clattn_extent *extent, int axes[5])
{
    int count = 0;
    for (int axis = 0; axis < 5; axis++) {
        if (extent->size[axis] <= 1)
            continue;
        int at = count++;
        for (; at > 0 && extent->stride[axes[at - 1]] > extent->stride[axis]; at--)
            axes[at] = axes[at - 1];
        axes[at] = axis;
    }
    return count;
}

bool clattn_extent_is_dense(const struct clattn_extent *extent)
{
    int axes[5];
    int64_t span = 1;
    const int count = clattn_sorted_axes(extent, axes);
    for (int i = 0; i < count; i++) {
        const int64_t stride = extent->stride[axes[i]];
        if (stride > span)
            return false;
        span += clattn_times(extent->size[axes[i]] - 1, stride);
    }
    return true;
}

size_t clattn_problem_bytes(const clattn_problem *problem, clattn_tensor tensor)
{
    if (!problem || !is_tensor(tensor))
        return 0;
    const struct clattn_extent extent = clattn_tensor_extent(problem, tensor);
    const size_t element = clattn_problem_element_size(problem, tensor);
    const uint64_t most = SIZE_MAX / element - 1;
    uint64_t last = 0;
    for (int axis = 0; axis < 5; axis++)
        if (extent.size[axis] <= 0)
            return 0;
    for (int axis = 0; axis < 5; axis++) {
        const uint64_t steps = (uint64_t)extent.size[axis] - 1, stride = (uint64_t)extent.stride[axis];
        if (steps != 0 && stride > (most - last) / steps)
            return SIZE_MAX;
        last += steps * stride;
    }
    return (size_t)(last + 1) * element;
}

bool clattn_problem_is_output(const clattn_problem *problem, clattn_operation operation, clattn_tensor tensor)
{
    if (!problem || !clattn_operation_name(operation) || !is_tensor(tensor) || !table[tensor].result ||
        !(table[tensor].used_by & USED_BY(operation)))
        return false;
    const bool from_forward = tensor >= CLATTN_O && tensor <= CLATTN_TLSE;
    return !(problem->forward_given && (USED_BY(operation) & USED_BY_GRADIENTS) && from_forward);
}
