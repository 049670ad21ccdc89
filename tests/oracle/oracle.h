/*
 * The oracle: attention and its derivatives in plain C, with every M x N
 * matrix in memory. It judges the library, so it shares no code and no header
 * with it, and knows nothing of OpenCL.
 *
 * Per batch b, query head h (key/value head h / (Hq/Hkv)), row i, key j:
 *
 *   X = s Q K^T    Y = c tanh(X/c)    S = f(Y) + B    P = softmax(S)    O = (P o Z) V    L = logsumexp(S)
 *
 * with the tangents (JVP), the gradients of <dO,O> + <dL,L> (VJP) and the
 * tangents of those gradients (HVP). A pair (i, j) that does not attend is
 * left out of every sum: what its key, its bias or its tangents hold, NaN
 * included, reaches nothing.
 */
#ifndef ORACLE_H
#define ORACLE_H

#include <stdbool.h>
#include <stdint.h>

enum oracle_operation {
    ORACLE_FORWARD,
    ORACLE_JVP,
    ORACLE_VJP,
    ORACLE_HVP
};

enum oracle_causal {
    ORACLE_CAUSAL_NONE,
    ORACLE_CAUSAL_TOP_LEFT,
    ORACLE_CAUSAL_BOTTOM_RIGHT
};

/* With cu_seqlens, batch is the number of sequences, and queries and keys are
 * the totals over them. */
struct oracle_sizes {
    int64_t batch, heads_q, heads_kv; /* B, Hq, Hkv */
    int64_t queries, keys;            /* M, N */
    int64_t head_dim, head_dim_v;     /* D, Dv */
};

/* New logit *y of the softcapped logit x, and its first and second derivative
 * in x. b, h, i, j: batch (or sequence), query head, and query and key counted
 * from the start of their sequence. */
typedef void oracle_logit(double x, int b, int h, int i, int j, const float *data, double *y, double *dy,
                          double *ddy);

/* One problem. Arrays are contiguous in the order written, their leading batch
 * axis is 1 in a packed batch ([1,H,total,D]); NULL is "absent", and an absent
 * tangent or cotangent is 0. Axes of `*_shape` are full or 1 (broadcast).
 * Arrays of tangents have a leading axis T, also for T = 1. */
struct oracle_problem {
    struct oracle_sizes sizes;
    int64_t tangents; /* T >= 1 */

    double scale;                      /* s */
    double softcap;                    /* c; 0 = none */
    enum oracle_causal causal;         /* by the sequence's own lengths */
    int64_t window_left, window_right; /* both ends inclusive; -1 = unbounded */

    const uint8_t *mask; /* nonzero = attend */
    int64_t mask_shape[4];
    const double *bias; /* added to the logits; -inf masks out */
    int64_t bias_shape[4];
    const int32_t *kv_lengths;                  /* [B], clamped to 0..N */
    const int32_t *q_segments, *kv_segments;    /* [B,M], [B,N]; negative attends to nothing */
    const int32_t *cu_seqlens_q, *cu_seqlens_k; /* [B+1]; both or none: a packed batch */
    const uint8_t *block_mask; /* [B|1,Hq|1,ceil(M/bm),ceil(N/bn)]: 0 skip, 1 all, 2 as mask */
    int64_t block_mask_shape[4];
    int64_t block_rows, block_columns; /* bm, bn */
    const double *alibi;               /* [Hq] slopes */
    const double *sink;                /* [Hq]; -inf is none */
    oracle_logit *logit;
    const float *logit_data; /* handed to logit */
    double dropout;          /* p in [0,1) */
    uint64_t dropout_seed, dropout_offset;

    const double *q, *k, *v;                    /* [B,Hq,M,D], [B,Hkv,N,D], [B,Hkv,N,Dv] */
    const double *do_, *dlse;                   /* [B,Hq,M,Dv], [B,Hq,M] */
    const double *tq, *tk, *tv, *tbias, *tsink; /* [T, shape of the primal] */
    const double *tdo, *tdlse;                  /* [T, shape of the cotangent] */
};

/* Gradients carry d, tangents t. The tangent of each output stands
 * ORACLE_PRIMAL_COUNT after it. */
enum oracle_output {
    ORACLE_O,     /* [B,Hq,M,Dv] */
    ORACLE_LSE,   /* [B,Hq,M] */
    ORACLE_DQ,    /* shape of q */
    ORACLE_DK,    /* shape of k */
    ORACLE_DV,    /* shape of v */
    ORACLE_DBIAS, /* bias_shape */
    ORACLE_DSINK, /* [Hq] */
    ORACLE_PRIMAL_COUNT,
    ORACLE_TO = ORACLE_PRIMAL_COUNT, /* [T, shape of the primal], and so on */
    ORACLE_TLSE,
    ORACLE_TDQ,
    ORACLE_TDK,
    ORACLE_TDV,
    ORACLE_TDBIAS,
    ORACLE_TDSINK,
    ORACLE_OUTPUT_COUNT
};

/* One output. `size` is the Frobenius norm of the sums in which every term is
 * replaced by its absolute value: how large the numbers were that made it.
 * Where the output is far below it, the terms have cancelled and a relative
 * error says nothing. Terms that are not finite are left out of it. */
struct oracle_array {
    double *values;     /* NULL: the operation or the problem has no such output */
    int64_t count;      /* elements, all T included */
    int64_t row_length; /* last axis; 1 for lse and sink arrays, which are judged by element */
    double size;
};

struct oracle_result {
    struct oracle_array outputs[ORACLE_OUTPUT_COUNT];
};

/* Sets the sizes and the defaults: scale 1/sqrt(D), unbounded window, one
 * tangent, no option, no array. */
void oracle_problem_init(struct oracle_problem *problem, const struct oracle_sizes *sizes);

/* Computes everything that the operation has: forward o lse; jvp o lse to
 * tlse; vjp o lse and gradients; hvp all. dbias and dsink are there when bias
 * and sink are. Arithmetic in double. Give *result to oracle_result_free. */
void oracle_compute(enum oracle_operation operation, const struct oracle_problem *problem,
                    struct oracle_result *result);

/* The same with all arithmetic in float: what a plain f32 evaluation makes of
 * the problem, the yardstick where the problem itself is ill-conditioned. */
void oracle_compute_f32(enum oracle_operation operation, const struct oracle_problem *problem,
                        struct oracle_result *result);

void oracle_result_free(struct oracle_result *result);

/* "o", "lse", "tdbias", ... */
const char *oracle_output_name(enum oracle_output output);

#endif /* ORACLE_H */
