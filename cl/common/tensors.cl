/*
 * The parameters that every attention kernel has, and tiles of tensors. Knows
 * the tensors of params.h; knows no algorithm and no engine.
 */

/* Which tangents a program computes with. */
#ifndef TANGENTS
#define TANGENTS 0
#endif
#ifndef HAS_TQ
#define HAS_TQ 0
#endif
#ifndef HAS_TK
#define HAS_TK 0
#endif
#ifndef HAS_TV
#define HAS_TV 0
#endif
#ifndef HAS_TBIAS
#define HAS_TBIAS 0
#endif
#ifndef HAS_TDO
#define HAS_TDO 0
#endif
/* X' is not 0; S' is not 0 */
#define HAS_TX (HAS_TQ || HAS_TK)
#define HAS_TS (HAS_TQ || HAS_TK || HAS_TBIAS)
/* OpenCL C has no arrays of length 0. */
#define TANGENT_ARRAY (TANGENTS > 0 ? TANGENTS : 1)

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

/* 1: the engine loads rows by a description of their whole tensor, so it must know whose they are. */
#ifndef LOADS_BY_MAPS
#define LOADS_BY_MAPS 0
#endif

/* `rows` rows of `dims` elements, `stride` elements apart; what lies beyond reads as 0. */
typedef struct {
    __global const in_t *data;
    long stride;
    int rows;
    int dims;
#if LOADS_BY_MAPS
    int slot, t, b, h, row; /* the first: row `row` of tangent t, batch b and head h of tensor `slot` */
#endif
} view;

/* Rows of a [B,H,S,dims] result, to be written, rounded to the result's type or, where `full` is not NULL, as they
 * are; rows from `rows` on are left alone. */
typedef struct {
    __global out_t *rounded;
    __global real *full;
    long stride;
    int rows;
    int dims;
} target;

/* Rows of sums in memory; dims is a multiple of 16. */
typedef struct {
    __global real *data;
    long stride;
    int rows;
    int dims;
} row_sums;

static inline bool same_rows(const view *a, const view *b)
{
    return a->data == b->data && a->stride == b->stride && a->rows == b->rows && a->dims == b->dims;
}

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
