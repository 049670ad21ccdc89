/*
 * The parameters that every attention kernel has, and tiles of tensors. Knows
 * the tensors of params.h; knows no algorithm and no engine.
 */

/* All kernels take the same list: the host sets it in one loop. A tensor that a call does not have is NULL. */
#define TENSOR_PARAMETER(NAME, name, type) __global type *restrict name##_buffer,
#define ATTENTION_PARAMETERS                                                                                 \
    ATTENTION_TENSORS(TENSOR_PARAMETER)                                                                      \
    __global const struct attention_params *restrict params, const struct buffer_offsets offsets,            \
        const int tangent_first

#define TENSOR_MEMBER(NAME, name, type) __global type *name;
typedef struct {
    ATTENTION_TENSORS(TENSOR_MEMBER)
    __global const struct attention_params *p;
    int tangent_first; /* the first of the TANGENTS tangents that this launch computes */
} arguments;

#define TENSOR_LOCATE(NAME, name, type) a.name = name##_buffer + offsets.at[SLOT_##NAME];
/* Declares `a`, the arguments, from a kernel's parameters. */
#define ATTENTION_ARGUMENTS                                                                                  \
    arguments a;                                                                                             \
    ATTENTION_TENSORS(TENSOR_LOCATE)                                                                         \
    a.p = params;                                                                                            \
    a.tangent_first = tangent_first

/* `rows` rows of `dims` elements, `stride` elements apart; what lies beyond reads as 0. */
typedef struct {
    __global const in_t *data;
    long stride;
    int rows;
    int dims;
} view;

static inline real view_at(const view *v, const int row, const int d)
{
    return row < v->rows && d < v->dims ? LOAD_IN(v->data + row * v->stride + d) : (real)0;
}

/* Elements from the start of a tensor to row `row` of batch b, head h and tangent t. */
static inline long row_offset(const arguments *a, const int slot, const int t, const int b, const int h,
                              const long row)
{
    __global const struct axis_strides *stride = &a->p->strides[slot];
    return t * stride->tangent + b * stride->batch + h * stride->head + row * stride->row;
}

/* Index into [T,B,Hq,M] arrays of rows, which are always contiguous. */
static inline long stat_index(const arguments *a, const int t, const int b, const int h, const long row)
{
    return (((long)t * a->p->batch_stored + b) * a->p->heads_q + h) * a->p->queries + row;
}

#if IN_TYPE == TYPE_F64
#define PARAM_SCALE(a) as_double((a)->p->scale_f64)
#define PARAM_SOFTCAP(a) as_double((a)->p->softcap_f64)
#define PARAM_DROPOUT_SCALE(a) as_double((a)->p->dropout_scale_f64)
#else
#define PARAM_SCALE(a) ((a)->p->scale)
#define PARAM_SOFTCAP(a) ((a)->p->softcap)
#define PARAM_DROPOUT_SCALE(a) ((a)->p->dropout_scale)
#endif
