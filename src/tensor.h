/* What each tensor of a call is: its axes, its element type, who uses it. */
#ifndef CLATTN_TENSOR_H
#define CLATTN_TENSOR_H

#include "clattn/clattn.h"

/* Which sizes make up a tensor's shape. */
enum clattn_axes {
    AXES_QUERY,      /* [B,Hq,M,D] */
    AXES_KEY,        /* [B,Hkv,N,D] */
    AXES_VALUE,      /* [B,Hkv,N,Dv] */
    AXES_OUTPUT,     /* [B,Hq,M,Dv] */
    AXES_PAIRS,      /* [B|1,Hq|1,M|1,N|1] */
    AXES_BLOCKS,     /* [B|1,Hq|1,ceil(M/bm),ceil(N/bn)] */
    AXES_ROWS,       /* [B,Hq,M] */
    AXES_BATCH,      /* [B] */
    AXES_OFFSETS,    /* [B+1] */
    AXES_BATCH_ROWS, /* [B,M] */
    AXES_BATCH_KEYS, /* [B,N] */
    AXES_HEADS,      /* [Hq] */
    AXES_ANY         /* the caller's own */
};

enum clattn_element {
    ELEMENT_IN,   /* the problem's dtype */
    ELEMENT_OUT,  /* its out_dtype */
    ELEMENT_BIAS, /* its bias_dtype */
    ELEMENT_ROW,  /* f64 when dtype is f64, else f32 */
    ELEMENT_F32,
    ELEMENT_INT,
    ELEMENT_BYTE
};

/* Who reads or writes it, as bits over clattn_operation. */
#define USED_BY(operation) (1u << (operation))
#define USED_BY_ALL                                                                                          \
    (USED_BY(CLATTN_FORWARD) | USED_BY(CLATTN_JVP) | USED_BY(CLATTN_VJP) | USED_BY(CLATTN_HVP))
#define USED_BY_TANGENTS (USED_BY(CLATTN_JVP) | USED_BY(CLATTN_HVP))
#define USED_BY_GRADIENTS (USED_BY(CLATTN_VJP) | USED_BY(CLATTN_HVP))

struct clattn_tensor_facts {
    const char *name;
    enum clattn_axes axes;
    enum clattn_element element;
    bool tangent; /* has a leading T */
    bool result;
    unsigned used_by;
    int primal; /* the tensor that must be there if this is, or -1 */
};

/* Facts of a tensor; `tensor` must be valid. */
const struct clattn_tensor_facts *clattn_tensor_facts(clattn_tensor tensor);

/* Bytes of one element of a dtype. */
size_t clattn_dtype_size(clattn_dtype dtype);

/* a * b, cut to 2^62: sizes and strides may be anything before they are checked. */
int64_t clattn_times(int64_t a, int64_t b);

/* All five axes with their strides in elements, T first: absent axes have size 1 and stride 0. */
struct clattn_extent {
    int64_t size[5];
    int64_t stride[5];
};
struct clattn_extent clattn_tensor_extent(const clattn_problem *problem, clattn_tensor tensor);

/* Axes of more than one element, the smallest stride first; returns how many. */
int clattn_sorted_axes(const struct clattn_extent *extent, int axes[5]);

/* Whether the elements, of which there are some, leave no gap between the first and the last. */
bool clattn_extent_is_dense(const struct clattn_extent *extent);

#endif
