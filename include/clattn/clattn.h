/*
 * clattn: exact attention and its derivatives on any OpenCL device, without
 * the N x N matrix in memory.
 *
 * This header is the manual of the library. It goes from the simplest use to
 * the most explicit one:
 *
 *   1. Status and messages
 *   2. Vocabulary: operations, element types, tensors
 *   3. Problem: what is to be computed, a plain struct
 *   4. Context: one device, its compiled programs
 *   5. The simplest call: arrays in, arrays out
 *   6. Plan and enqueue: your queue, your buffers, your events
 *
 * Sizes: B batches, Hq query heads, Hkv key/value heads (Hq a multiple of
 * Hkv), M queries, N keys, D head dim of queries and keys, Dv head dim of
 * values, T tangents.
 *
 *   X = scale Q K^T          raw logits                            [B,Hq,M,N]
 *   S = softcap(X) + bias    logits; masked-out ones do not exist
 *   L = logsumexp_j S        log-sum-exp, natural logarithm        [B,Hq,M]
 *   P = exp(S - L)           never stored
 *   O = P V                  the output                            [B,Hq,M,Dv]
 *
 * Names follow the field: a tangent carries a leading t (TQ is the tangent of
 * Q), a cotangent or gradient a leading d (DO, DQ), the tangent of a gradient
 * td (TDQ).
 *
 * Usable from C99 and C++.
 */
#ifndef CLATTN_CLATTN_H
#define CLATTN_CLATTN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

#if defined(CLATTN_STATIC) || !defined(__GNUC__)
#define CLATTN_API
#else
#define CLATTN_API __attribute__((visibility("default")))
#endif

#define CLATTN_VERSION_MAJOR 0
#define CLATTN_VERSION_MINOR 1
#define CLATTN_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------
 * 1. Status and messages
 * ---------------------------------------------------------------------- */

typedef enum clattn_status {
    CLATTN_SUCCESS = 0,
    CLATTN_INVALID_ARGUMENT = -1, /* a value that is wrong on every device */
    CLATTN_UNSUPPORTED = -2,      /* right, but not on this device or not in this version */
    CLATTN_OUT_OF_MEMORY = -3,    /* host or device memory */
    CLATTN_DEVICE_ERROR = -4,     /* an OpenCL call failed */
    CLATTN_BUILD_ERROR = -5       /* a kernel, or the caller's logit function, did not compile */
} clattn_status;

/* "invalid argument" and the like; never NULL. */
CLATTN_API const char *clattn_status_name(clattn_status status);

/* One line about the calling thread's last failed call: the argument, its
 * value, what was expected. "" if no call of this thread has failed. Owned by
 * the library, valid until the thread's next clattn call. */
CLATTN_API const char *clattn_message(void);

/* All that the compiler said (up to 8 KiB) when a call of this thread last
 * failed with CLATTN_BUILD_ERROR, of which the message has the first error. ""
 * if none has. Owned by the library, valid until the thread's next clattn call. */
CLATTN_API const char *clattn_build_log(void);

/* "0.1.0": the version of the library that is linked. */
CLATTN_API const char *clattn_version(void);

/* ------------------------------------------------------------------------
 * 2. Vocabulary
 * ---------------------------------------------------------------------- */

typedef enum clattn_operation {
    CLATTN_FORWARD, /* O, L */
    CLATTN_JVP,     /* O, L and their tangents */
    CLATTN_VJP,     /* O, L and the gradients of <DO,O> + <DLSE,L> */
    CLATTN_HVP,     /* all of these, and the tangents of the gradients */
    CLATTN_OPERATION_COUNT
} clattn_operation;

typedef enum clattn_dtype {
    CLATTN_F32,
    CLATTN_F16,
    CLATTN_BF16,
    CLATTN_F64, /* where the device has cl_khr_fp64 */
    CLATTN_DTYPE_COUNT
} clattn_dtype;

typedef enum clattn_causal {
    CLATTN_CAUSAL_NONE,
    CLATTN_CAUSAL_TOP_LEFT,    /* j <= i */
    CLATTN_CAUSAL_BOTTOM_RIGHT /* j <= i + N - M */
} clattn_causal;

/*
 * Reverse over forward. A loss on an output and its tangent, loss(O, O', L, L'),
 * has the cotangents O_bar, O'_bar, L_bar, L'_bar. Its gradients come from one
 * CLATTN_HVP call with the tangents TQ, TK, TV, TBIAS as they were and
 *
 *     DO = O'_bar    DLSE = L'_bar    TDO = O_bar    TDLSE = L_bar
 *
 * DQ, DK, DV, DBIAS are then the gradients for TQ, TK, TV, TBIAS, and TDQ, TDK,
 * TDV, TDBIAS those for Q, K, V, BIAS: <O'_bar, O'> is the derivative of
 * <O'_bar, O> along the tangents, and derivatives commute. With several
 * tangents, sum what each of T calls gives for Q, K, V, BIAS.
 * examples/meanflow_step.c does it.
 */

/* Every array a call can have. Shapes are [..] in logical order; strides say
 * where elements lie. "dtype" is the problem's, "out" its out_dtype, "row
 * type" is f64 when dtype is f64 and else f32. A leading T is there for
 * tangents when the problem has several. */
typedef enum clattn_tensor {
    /* inputs of every operation */
    CLATTN_Q,            /* [B,Hq,M,D] dtype */
    CLATTN_K,            /* [B,Hkv,N,D] dtype */
    CLATTN_V,            /* [B,Hkv,N,Dv] dtype */
    CLATTN_BIAS,         /* [B|1,Hq|1,M|1,N|1] bias_dtype, added to the logits; -inf masks out */
    CLATTN_MASK,         /* [B|1,Hq|1,M|1,N|1] bytes, nonzero = attend */
    CLATTN_KV_LENGTHS,   /* [B] int32: keys j >= kv_lengths[b] are masked out; clamped to 0..N */
    CLATTN_Q_SEGMENTS,   /* [B,M] int32; attend within equal ids; negative attends to nothing */
    CLATTN_KV_SEGMENTS,  /* [B,N] int32 */
    CLATTN_CU_SEQLENS_Q, /* [B+1] int32: packed batch, see clattn_problem */
    CLATTN_CU_SEQLENS_K, /* [B+1] int32 */
    CLATTN_ALIBI,        /* [Hq] f32 slopes: S gains -slope |i + N - M - j| */
    CLATTN_BLOCK_MASK,   /* [B|1,Hq|1,ceil(M/bm),ceil(N/bn)] bytes: 0 skip, 1 attend, 2 as MASK says */
    CLATTN_SINK,         /* [Hq] row type: an extra logit with no value */
    CLATTN_LOGIT_DATA,   /* [any] f32, handed to the caller's logit function */
    /* tangents of inputs (JVP, HVP); an absent one is 0 */
    CLATTN_TQ,    /* T x shape of Q, dtype */
    CLATTN_TK,    /* T x shape of K, dtype */
    CLATTN_TV,    /* T x shape of V, dtype */
    CLATTN_TBIAS, /* T x shape of BIAS, bias_dtype */
    CLATTN_TSINK, /* [T,Hq] row type */
    /* cotangents (VJP, HVP) and their tangents (HVP) */
    CLATTN_DO,    /* [B,Hq,M,Dv] dtype */
    CLATTN_DLSE,  /* [B,Hq,M] row type; absent = 0 */
    CLATTN_TDO,   /* [T,B,Hq,M,Dv] dtype; absent = 0 */
    CLATTN_TDLSE, /* [T,B,Hq,M] row type; absent = 0 */
    /* results. O, LSE, LSE_LOW, TO, TLSE are inputs of VJP and HVP when the problem says so */
    CLATTN_O,       /* [B,Hq,M,Dv] out */
    CLATTN_LSE,     /* [B,Hq,M] row type, always contiguous */
    CLATTN_LSE_LOW, /* [B,Hq,M] row type: what rounding took from LSE; LSE + LSE_LOW is L */
    CLATTN_TO,      /* [T,B,Hq,M,Dv] out */
    CLATTN_TLSE,    /* [T,B,Hq,M] row type */
    CLATTN_DQ,      /* shape of Q, out */
    CLATTN_DK,      /* shape of K, out */
    CLATTN_DV,      /* shape of V, out */
    CLATTN_DBIAS,   /* shape of BIAS, row type, contiguous */
    CLATTN_DSINK,   /* [Hq] row type */
    CLATTN_TDQ,     /* [T,...] out */
    CLATTN_TDK,     /* [T,...] out */
    CLATTN_TDV,     /* [T,...] out */
    CLATTN_TDBIAS,  /* [T,...] row type, contiguous */
    CLATTN_TDSINK,  /* [T,Hq] row type */
    CLATTN_TENSOR_COUNT
} clattn_tensor;

/* "forward", "jvp", ...; NULL for a value that is none. */
CLATTN_API const char *clattn_operation_name(clattn_operation operation);
/* "f32", "f16", "bf16", "f64"; NULL for a value that is none. */
CLATTN_API const char *clattn_dtype_name(clattn_dtype dtype);
/* "q", "tq", "kv_lengths", "tdbias", ...: the enumerator in lower case; NULL for a value that is none. */
CLATTN_API const char *clattn_tensor_name(clattn_tensor tensor);

/* ------------------------------------------------------------------------
 * 3. Problem
 * ---------------------------------------------------------------------- */

/* Distances in elements between neighbours along each axis of a tensor. Rows
 * are contiguous: the head-dim axis has distance 1. Stride 0 broadcasts an
 * input. `column` is used by BIAS, TBIAS, MASK and BLOCK_MASK only (their last
 * axis); tensors without an axis ignore its stride. */
typedef struct clattn_strides {
    int64_t tangent; /* between the T tangents */
    int64_t batch;
    int64_t head;
    int64_t row;
    int64_t column;
} clattn_strides;

/* What is to be computed. Fill it with clattn_problem_init, change what
 * differs, set present[] for the tensors that the calls will have. A plain
 * struct: no ownership, except that `engine` and `logit` must live until the
 * plan is made. */
typedef struct clattn_problem {
    clattn_dtype dtype;      /* of Q, K, V and their tangents and cotangents */
    clattn_dtype out_dtype;  /* dtype, or CLATTN_F32 */
    clattn_dtype bias_dtype; /* dtype, or CLATTN_F32 */

    /* B Hq M and B Hkv N are less than 2^31 (Hq M and Hkv N with cu_seqlens) */
    int64_t batch;      /* B >= 0; with cu_seqlens the number of sequences */
    int64_t heads_q;    /* Hq >= 0 */
    int64_t heads_kv;   /* Hkv >= 0, Hq a multiple of it */
    int64_t queries;    /* M >= 0; with cu_seqlens the total over sequences */
    int64_t keys;       /* N >= 0; likewise */
    int64_t head_dim;   /* D >= 1 */
    int64_t head_dim_v; /* Dv >= 1 */
    int64_t tangents;   /* T >= 1, used by JVP and HVP */

    double scale;   /* any finite value; the initialiser sets 1/sqrt(D) */
    double softcap; /* S = softcap tanh(X / softcap) when > 0; 0 = none */

    clattn_causal causal;
    int64_t window_left;  /* keys j >= diag - window_left; -1 = unbounded */
    int64_t window_right; /* keys j <= diag + window_right; -1 = unbounded */

    double dropout;          /* p in [0,1) */
    uint64_t dropout_seed;   /* Philox4x32-10 key */
    uint64_t dropout_offset; /* Philox4x32-10 counter */

    int64_t block_rows; /* bm, bn of BLOCK_MASK */
    int64_t block_columns;

    /* The caller's own logit function: OpenCL C that defines
     *     void clattn_logit(real x, int b, int h, int i, int j, __global const float *data,
     *                       real *y, real *dy, real *ddy)
     * the new logit y(x) and its first and second derivative in x, for batch
     * element (or sequence) b, query head h, query i and key j counted from the
     * start of their sequence. Applied after scale and softcap, before the bias;
     * y = -INFINITY masks out. `real` is float, and double under f64. NULL: none. */
    const char *logit;
    int64_t logit_data_count; /* elements of LOGIT_DATA, >= 0 */

    /* VJP and HVP: O, LSE, LSE_LOW (and TO, TLSE for HVP) are given, from a
     * forward or JVP call on the same inputs, instead of being computed. LSE_LOW
     * may be absent, which costs accuracy where |LSE| is large. */
    bool forward_given;

    bool present[CLATTN_TENSOR_COUNT];
    clattn_strides strides[CLATTN_TENSOR_COUNT];

    const char *engine; /* force one by name, or NULL to let the library choose */
} clattn_problem;

/* Sizes in one place for the initialiser and for checks. */
typedef struct clattn_sizes {
    int64_t batch, heads_q, heads_kv, queries, keys, head_dim, head_dim_v;
} clattn_sizes;

/* Fills *problem: f32, scale 1/sqrt(D), no options, one tangent, contiguous
 * [B,H,S,D] layouts, no causal mask, unbounded window. Present are the tensors
 * that the operation cannot do without (Q, K, V, DO) and the results O, LSE,
 * TO, TLSE, DQ, DK, DV, TDQ, TDK, TDV that it has. Without sizes, or for a value
 * that is no operation, *problem is one that clattn_problem_check refuses. */
CLATTN_API void clattn_problem_init(clattn_problem *problem, clattn_operation operation,
                                    const clattn_sizes *sizes);

/* Sets contiguous strides for every tensor from the problem's sizes: rows of
 * [B,H,S,D] tensors are D (or Dv) apart. With seq_major, [B,S,H,D] instead.
 * BIAS, TBIAS and MASK are taken as full [B,Hq,M,N]; to broadcast an axis, set
 * its stride to 0 afterwards (and the other strides to what they then are).
 * Nothing for NULL. */
CLATTN_API void clattn_problem_set_contiguous(clattn_problem *problem, bool seq_major);

/* Logical shape of a tensor, from the problem's sizes and (for broadcast axes
 * of BIAS and MASK) strides: writes up to 5 axes to shape and returns how
 * many, without the leading T. A broadcast axis is 1. For NULL or a value that
 * is no tensor it returns 0 and writes nothing. */
CLATTN_API int clattn_problem_shape(const clattn_problem *problem, clattn_tensor tensor, int64_t shape[5]);

/* Element type of a tensor (bytes and int32 tensors say so by size only); 0
 * for NULL or a value that is no tensor. */
CLATTN_API size_t clattn_problem_element_size(const clattn_problem *problem, clattn_tensor tensor);

/* Bytes from the first element of a tensor to the end of its last one, over
 * all T; 0 for one without elements, for NULL and for a value that is no
 * tensor; SIZE_MAX if that is beyond size_t. What a buffer must hold. */
CLATTN_API size_t clattn_problem_bytes(const clattn_problem *problem, clattn_tensor tensor);

/* True if a tensor is a result of the operation under this problem; false for
 * NULL and values that are no operation or no tensor. */
CLATTN_API bool clattn_problem_is_output(const clattn_problem *problem, clattn_operation operation,
                                         clattn_tensor tensor);

/* Checks a problem for one operation, without a device. Fails with
 * CLATTN_INVALID_ARGUMENT and a message that names what is wrong. */
CLATTN_API clattn_status clattn_problem_check(const clattn_problem *problem, clattn_operation operation);

/* ------------------------------------------------------------------------
 * 4. Context
 * ---------------------------------------------------------------------- */

/* One device and the programs compiled for it. May be used from many threads
 * at once. */
typedef struct clattn_context clattn_context;

/* Facts about a device as the engines see them. Strings end in 0, cut to size. */
typedef struct clattn_device_info {
    cl_device_id id;
    char platform[128];
    char name[128];
    char driver[128];
    char version[128];
    bool is_cpu, is_gpu;
    int vector_floats; /* floats of a native vector; 1 where the device has none */
    bool has_fp64;
    int compute_units;
    uint64_t global_memory;  /* bytes */
    uint64_t max_allocation; /* bytes */
    uint64_t local_memory;   /* bytes */
    uint64_t max_work_group;
    int compute_capability; /* of an NVIDIA GPU, 10 major + minor; else 0 */
} clattn_device_info;

/* A context on the caller's OpenCL context and one device of it. Retains the cl_context.
 * *context is to be given to clattn_context_release. */
CLATTN_API clattn_status clattn_context_create(cl_context cl, cl_device_id device, clattn_context **context);

/* The same for programs with no OpenCL of their own: makes a cl_context on the
 * device that `selector` names, a part of its name or its index in the order
 * of clattn_device_count; NULL takes the first GPU, or else the first device.
 * A part of a name that fits two devices is refused, and so is an empty one. */
CLATTN_API clattn_status clattn_context_open(const char *selector, clattn_context **context);

/* Frees a context and its programs; NULL is allowed. Plans made from it must
 * have been released. */
CLATTN_API void clattn_context_release(clattn_context *context);

/* The OpenCL objects behind a context; not retained for the caller. NULL for NULL. */
CLATTN_API cl_context clattn_context_cl(const clattn_context *context);
CLATTN_API cl_device_id clattn_context_device(const clattn_context *context);

/* Facts about a context's device. */
CLATTN_API clattn_status clattn_context_describe(const clattn_context *context, clattn_device_info *info);

/* How many programs this context has built since it was made. A problem that
 * differs from an earlier one only in kernel arguments builds none. 0 for NULL. */
CLATTN_API int clattn_context_programs_built(const clattn_context *context);

/* All OpenCL devices of all platforms: writes up to `capacity` of them and
 * returns how many there are through *count. No platform at all is count 0; so
 * are platforms without devices, but one that fails while no other has a device
 * is an error that names it. */
CLATTN_API clattn_status clattn_devices(clattn_device_info *infos, int capacity, int *count);

/* Number of engines, and their names in order of merit; NULL past the end. */
CLATTN_API int clattn_engine_count(void);
CLATTN_API const char *clattn_engine_name(int index);

/* ------------------------------------------------------------------------
 * 5. The simplest call
 * ---------------------------------------------------------------------- */

/* Computes one operation on arrays in host memory and waits for the result.
 * arrays[t] is the array of tensor t, laid out as the problem says, NULL where
 * present[t] is false. Inputs are read, outputs written, all of them or none.
 * Entries of kv lengths, cu_seqlens and block mask are checked here, and the
 * first bad one is named; in a cl_mem they are clamped by the kernels.
 * Makes its own queue and buffers on the context's device, freed on return.
 *
 *     clattn_context *context;
 *     clattn_context_open(NULL, &context);
 *     clattn_problem problem;
 *     clattn_problem_init(&problem, CLATTN_FORWARD, &(clattn_sizes){1, 8, 8, 512, 512, 64, 64});
 *     void *arrays[CLATTN_TENSOR_COUNT] = {0};
 *     arrays[CLATTN_Q] = q; arrays[CLATTN_K] = k; arrays[CLATTN_V] = v;
 *     arrays[CLATTN_O] = o; arrays[CLATTN_LSE] = lse;
 *     clattn_compute(context, CLATTN_FORWARD, &problem, arrays);
 */
CLATTN_API clattn_status clattn_compute(clattn_context *context, clattn_operation operation,
                                        const clattn_problem *problem,
                                        void *const arrays[CLATTN_TENSOR_COUNT]);

/* ------------------------------------------------------------------------
 * 6. Plan and enqueue
 * ---------------------------------------------------------------------- */

/* A checked, compiled problem for one operation. Immutable: may be enqueued
 * from many threads at once, on any queue of the context's device. */
typedef struct clattn_plan clattn_plan;

/* Facts of a plan, and reasons. */
typedef struct clattn_plan_info {
    clattn_operation operation;
    const char *engine;       /* owned by the library */
    char tiles[96];           /* "64x64 of 16x16 work-items", as the engine describes them */
    char reason[256];         /* why this engine: which better ones were passed over, and why */
    uint64_t workspace_bytes; /* scratch that each enqueue needs, O(B H (M+N) D) */
    double flops;             /* products * 2 B Hq M N D, halved for causal */
    uint64_t bytes;           /* compulsory traffic: each tensor once */
} clattn_plan_info;

/* Checks the problem, chooses engine and tiles, compiles what is not compiled
 * yet. *plan is to be given to clattn_plan_release. */
CLATTN_API clattn_status clattn_plan_create(clattn_context *context, clattn_operation operation,
                                            const clattn_problem *problem, clattn_plan **plan);
CLATTN_API void clattn_plan_release(clattn_plan *plan);
CLATTN_API clattn_status clattn_plan_describe(const clattn_plan *plan, clattn_plan_info *info);

/* A tensor's place: a buffer of the caller's and the byte offset of its first
 * element, a multiple of the element size. */
typedef struct clattn_buffer {
    cl_mem memory;
    size_t offset;
} clattn_buffer;

/* Enqueues the plan's operation: buffers[t] for each tensor t that the problem
 * has as present. `workspace` must hold workspace_bytes and belong to no other
 * enqueue that may run at the same time; NULL when workspace_bytes is 0. Wait
 * list and event as in clEnqueueNDRangeKernel; works on in-order and
 * out-of-order queues. All errors are found before anything is enqueued,
 * except those that OpenCL reports at launch. Does not block.
 *
 * Memory objects are buffers. Inputs must be readable by kernels, outputs
 * writable, and the workspace both; so must O, LSE, LSE_LOW, TO, TLSE where
 * VJP or HVP computes them. No output may share a byte with another output, an
 * input or the workspace, though its rows may lie in the gaps between theirs:
 * what would come of it is undefined. Where buffers and offsets show an overlap
 * for certain it is refused; overlapping sub-buffers are not noticed. Inputs
 * may share what they like. */
CLATTN_API clattn_status clattn_enqueue(const clattn_plan *plan, cl_command_queue queue,
                                        const clattn_buffer buffers[CLATTN_TENSOR_COUNT], cl_mem workspace,
                                        cl_uint wait_count, const cl_event *wait_list, cl_event *event);

/* How much work the rules of a problem leave: a pass over the queries is cut
 * into tiles of queries by tiles of keys; those that position (causal, window,
 * lengths), segments or the block mask leave empty are skipped and cost
 * nothing. */
typedef struct clattn_tile_count {
    uint64_t visited;
    uint64_t skipped;
} clattn_tile_count;

/* Counts the tiles of the plan's forward pass for these buffers (those of
 * kv lengths, cu_seqlens, segments and block mask are read). For people who
 * tune masks: compiles a program of its own, makes a small buffer, and waits. */
CLATTN_API clattn_status clattn_count_tiles(const clattn_plan *plan, cl_command_queue queue,
                                            const clattn_buffer buffers[CLATTN_TENSOR_COUNT],
                                            clattn_tile_count *count);

/* ------------------------------------------------------------------------
 * 7. Merging partial results
 * ---------------------------------------------------------------------- */

/* Attention over disjoint sets of keys, as of split keys, ring attention or a
 * shared prefix. With weights w_n = exp(L_n - L), L = log sum_n exp(L_n):
 *
 *     O = sum w_n O_n    L' = sum w_n L'_n    O' = sum w_n (O'_n + (L'_n - L') O_n)
 *
 * All arrays are contiguous: o [B,Hq,M,Dv] of `dtype`, lse [B,Hq,M], to
 * [T,B,Hq,M,Dv] of `dtype`, tlse [T,B,Hq,M]; rows in f64 when dtype is f64,
 * else f32. A part with nothing to attend to (O = 0, L = -inf) changes
 * nothing. A part that holds a sink counts it once: give the sink to one part. */
typedef struct clattn_partial {
    clattn_buffer o, lse;
    clattn_buffer lse_low;  /* memory NULL: 0; costs accuracy where |L| is large */
    clattn_buffer to, tlse; /* memory NULL with 0 tangents */
} clattn_partial;

typedef struct clattn_merge_sizes {
    clattn_dtype dtype;
    int64_t batch, heads, queries, head_dim_v;
    int64_t tangents; /* >= 0 */
} clattn_merge_sizes;

/* Enqueues merged = first (+) second. An array of `merged` may be the same one of
 * first or second; else it must overlap none of them. Buffers of first and
 * second must be readable, those of merged writable. Wait list and event as in clattn_enqueue; arguments
 * are checked before anything is enqueued. The program is built at the first
 * call for a dtype. */
CLATTN_API clattn_status clattn_enqueue_merge(clattn_context *context, cl_command_queue queue,
                                              const clattn_merge_sizes *sizes, const clattn_partial *first,
                                              const clattn_partial *second, const clattn_partial *merged,
                                              cl_uint wait_count, const cl_event *wait_list, cl_event *event);

#ifdef __cplusplus
}
#endif

#endif /* CLATTN_CLATTN_H */
