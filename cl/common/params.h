/*
 * What host and kernels agree on: the tensors of a call and the block of
 * facts that a plan hands to every kernel. Compiled as C11 by the library and
 * as OpenCL C by the device, so it may use nothing that either lacks.
 */
#ifndef CLATTN_PARAMS_H
#define CLATTN_PARAMS_H

/* Element types, as -D IN_TYPE=.. and so on; the order of clattn_dtype. */
#define TYPE_F32 0
#define TYPE_F16 1
#define TYPE_BF16 2
#define TYPE_F64 3

/*
 * Every tensor of a call, in the order of clattn_tensor: X(SLOT, name, type as
 * the kernels see it). in_t, out_t, bias_t and real are set by the program's
 * options.
 */
#define ATTENTION_CALL_TENSORS(X)                                                                            \
    X(Q, q, const in_t)                                                                                      \
    X(K, k, const in_t)                                                                                      \
    X(V, v, const in_t)                                                                                      \
    X(BIAS, bias, const bias_t)                                                                              \
    X(MASK, mask, const uchar)                                                                               \
    X(KV_LENGTHS, kv_lengths, const int)                                                                     \
    X(Q_SEGMENTS, q_segments, const int)                                                                     \
    X(KV_SEGMENTS, kv_segments, const int)                                                                   \
    X(CU_SEQLENS_Q, cu_seqlens_q, const int)                                                                 \
    X(CU_SEQLENS_K, cu_seqlens_k, const int)                                                                 \
    X(ALIBI, alibi, const float)                                                                             \
    X(BLOCK_MASK, block_mask, const uchar)                                                                   \
    X(SINK, sink, const real)                                                                                \
    X(LOGIT_DATA, logit_data, const float)                                                                   \
    X(TQ, tq, const in_t)                                                                                    \
    X(TK, tk, const in_t)                                                                                    \
    X(TV, tv, const in_t)                                                                                    \
    X(TBIAS, tbias, const bias_t)                                                                            \
    X(TSINK, tsink, const real)                                                                              \
    X(DO, d_o, const in_t)                                                                                   \
    X(DLSE, dlse, const real)                                                                                \
    X(TDO, tdo, const in_t)                                                                                  \
    X(TDLSE, tdlse, const real)                                                                              \
    X(O, o, out_t)                                                                                           \
    X(LSE, lse, real)                                                                                        \
    X(LSE_LOW, lse_low, real)                                                                                \
    X(TO, to, out_t)                                                                                         \
    X(TLSE, tlse, real)                                                                                      \
    X(DQ, dq, out_t)                                                                                         \
    X(DK, dk, out_t)                                                                                         \
    X(DV, dv, out_t)                                                                                         \
    X(DBIAS, dbias, real)                                                                                    \
    X(DSINK, dsink, real)                                                                                    \
    X(TDQ, tdq, out_t)                                                                                       \
    X(TDK, tdk, out_t)                                                                                       \
    X(TDV, tdv, out_t)                                                                                       \
    X(TDBIAS, tdbias, real)                                                                                  \
    X(TDSINK, tdsink, real)

/* Those that only the library sees; they lie in the workspace, contiguous. */
#define ATTENTION_SCRATCH_TENSORS(X)                                                                         \
    X(O_FULL, o_full, real)       /* [B,Hq,M,Dv]: O unrounded, for delta */                                  \
    X(TO_FULL, to_full, real)     /* [T,B,Hq,M,Dv] */                                                        \
    X(DELTA, delta, real)         /* [B,Hq,M]: sum_d dO O - dL */                                            \
    X(TDELTA, tdelta, real)       /* [B,Hq,M]: the tangent of it, for one tangent at a time */               \
    X(BIAS_ROWS, bias_rows, real) /* [B|1,Hq|1,M]: dB of a bias that broadcasts queries and keys, by row */  \
    X(TBIAS_ROWS, tbias_rows, real) /* the tangent of it */                                                  \
    X(SINK_PARTS, sink_parts, real) /* [Hq, parts]: dsink summed over parts of the rows */                   \
    X(TSINK_PARTS, tsink_parts, real)                                                                        \
    X(O_PARTS, o_parts, real)     /* [splits,B,Hq,M,Dv]: O of each part of the keys, where they are split */ \
    X(LSE_PARTS, lse_parts, real) /* [splits,B,Hq,M] */                                                      \
    X(LSE_LOW_PARTS, lse_low_parts, real)                                                                    \
    X(TO_PARTS, to_parts, real) /* [splits,tangents of a pass,B,Hq,M,Dv] */                                  \
    X(TLSE_PARTS, tlse_parts, real)                                                                          \
    X(DQ_PARTS, dq_parts, real) /* [slices,B,Hq,M,D rounded up to 16]: dQ / scale, by slices of the keys */  \
    X(TDQ_PARTS, tdq_parts, real)                                                                            \
    X(TILE_COUNTS, tile_counts, int)  /* [outer tiles, 2]: visited and all inner tiles */                    \
    X(TENSOR_MAPS, tensor_maps, uint) /* descriptions of tensors, for an engine that loads by them */

#define ATTENTION_TENSORS(X) ATTENTION_CALL_TENSORS(X) ATTENTION_SCRATCH_TENSORS(X)

#define ATTENTION_SLOT(NAME, name, type) SLOT_##NAME,
enum attention_slot {
    ATTENTION_TENSORS(ATTENTION_SLOT) SLOT_COUNT
};

#ifdef __OPENCL_VERSION__
#define PARAMS_LONG long
#define PARAMS_ULONG ulong
#define PARAMS_UINT uint
#else
#include <stdint.h>
#define PARAMS_LONG int64_t
#define PARAMS_ULONG uint64_t
#define PARAMS_UINT uint32_t
#endif

/* Rows that one work-item adds up for the gradient of the sink. */
#define SINK_PART_ROWS 256

/* Distances in elements, as clattn_strides. */
struct axis_strides {
    PARAMS_LONG tangent, batch, head, row, column;
};

/* A plan's facts that are not compiled in; one read-only buffer a plan. */
struct attention_params {
    struct axis_strides strides[SLOT_COUNT];
    int batch, heads_q, heads_kv, heads_per_kv; /* batch: B, or sequences; heads_per_kv = Hq / Hkv */
    int batch_stored;                           /* batch axis of [B,H,S,D] tensors: 1 in a packed batch */
    int queries, keys;                          /* M, N */
    int bias_batches, bias_heads;               /* leading axes of the bias: 1 where it broadcasts */
    int head_dim, head_dim_v;                   /* D, Dv */
    int diagonal_top_left;                      /* 1: the diagonal is j = i; 0: j = i + N - M */
    int left, right;                            /* window about the diagonal, large = unbounded */
    int block_rows, block_columns;              /* bm, bn of the block mask */
    float scale, softcap;
    PARAMS_ULONG scale_f64, softcap_f64;       /* bit patterns of doubles, for programs in f64 */
    PARAMS_ULONG dropout_seed, dropout_offset; /* Philox4x32-10 key and counter */
    PARAMS_UINT dropout_threshold;             /* keep a word >= floor(p 2^32) */
    int splits;          /* parts of the keys in attention_forward, put together again by attention_combine */
    int heads_together;  /* heads whose tiles of queries are mixed, the last rows of all first */
    int slices;          /* of the keys of a head, in attention_backward_at_once */
    float dropout_scale; /* 1 / (1 - p) */
    PARAMS_ULONG dropout_scale_f64;
};

/* Elements before the first one of each tensor in its buffer: they belong to
 * the call, so they go by value. */
struct buffer_offsets {
    PARAMS_ULONG at[SLOT_COUNT];
};

/* The call of attention_merge: elements before the first one in each buffer of the two parts and the result. */
struct merge_offsets {
    PARAMS_ULONG o, lse, low, to, tlse;
};
struct merge_params {
    struct merge_offsets part[3];
    PARAMS_LONG rows; /* B Hq M */
    int head_dim_v, tangents;
};

#endif
