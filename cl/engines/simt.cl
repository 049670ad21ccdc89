/*
 * Engine "simt": portable to any GPU with OpenCL C 1.2. A work-group of
 * TX x TY work-items holds a BM x BN tile of scores in registers, TM x TN
 * each, and passes operands through local memory. No algorithm in here.
 *
 *      inner rows j (BN), d in slices of BK          head dim (dim_class)
 *               +---------------+                   +----------------+
 *    outer      |  . tx . tx .  |   hand over       |  . tx . tx .   |
 *    rows i  ty |  scores       | ============>  ty |  outputs       |
 *    (BM)       |               |  weights in       |                |
 *               +---------------+  local memory     +----------------+
 *
 * Work-item (tx, ty) owns rows ty, ty + TY, ... and columns tx, tx + TX, ...
 * of both, so a row's scores and outputs are scaled by the same work-item.
 */
#ifndef BM
#define BM 32 /* outer rows a tile */
#endif
#ifndef BN
#define BN 32 /* inner rows a step */
#endif
#ifndef BK
#define BK 16 /* slice of head dim staged for scores, and of inner rows staged for outputs */
#endif
#ifndef TX
#define TX 8 /* work-items along a row */
#endif
#ifndef TY
#define TY 8 /* work-items along a column */
#endif
#ifndef UNROLL_LOOPS
#define UNROLL_LOOPS                                                                                         \
    1 /* 0 on CPUs: registers are spilled at each barrier anyway, and compiling takes far longer */
#endif

#define TM (BM / TY) /* rows a work-item */
#define TN (BN / TX) /* score columns a work-item */

#define OUTER BM
#define INNER BN
#define OUTER_SLOTS TM
#define SCORES (TM * TN)
#define OUTPUTS(dim_class) (TM * ((dim_class) / TX))
#define ENGINE_ATTRIBUTES __attribute__((reqd_work_group_size(TX * TY, 1, 1)))
#define ENGINE_SPLITS_PLAIN_TILES 0
#define ENGINE_ROUNDS_WEIGHTS 0
#define ROUND_WEIGHT(x) (x)
#if UNROLL_LOOPS
#define UNROLL_FOR _Pragma("unroll") for
#else
#define UNROLL_FOR for
#endif
#define UNROLL_LIST_FOR UNROLL_FOR

/* Local memory. One number of padding a row keeps transposed stores off a single bank. */
#define WIDEST_DIM (HEAD_DIM_CLASS > HEAD_DIM_V_CLASS ? HEAD_DIM_CLASS : HEAD_DIM_V_CLASS)
#define STAGE_SCORES (BK * (BM + 1 + BN + 1))
#define STAGE_VALUES (BK * WIDEST_DIM)
#define STAGE_SIZE (STAGE_SCORES > STAGE_VALUES ? STAGE_SCORES : STAGE_VALUES)
#define WEIGHT_STRIDE (BN + 1)

typedef long tile_number;

/* The work-group as a work-item sees it. */
typedef struct {
    tile_number tile; /* which tile of the launch this is */
    int item;         /* 0 .. TX TY - 1 */
    int tx, ty;
    __local real *stage;   /* [STAGE_SIZE] slices of operands on their way to registers */
    __local real *weights; /* [BM][WEIGHT_STRIDE] scores handed over */
    __local real *partial; /* [BM][TX] row reductions */
    __local int *flag;
} group;

#define GROUP(g)                                                                                             \
    __local real group_stage[STAGE_SIZE];                                                                    \
    __local real group_weights[BM * WEIGHT_STRIDE];                                                          \
    __local real group_partial[BM * TX];                                                                     \
    __local int group_flag;                                                                                  \
    const group g = {get_group_id(0),                                                                        \
                     (int)get_local_id(0),                                                                   \
                     (int)get_local_id(0) % TX,                                                              \
                     (int)get_local_id(0) / TX,                                                              \
                     group_stage,                                                                            \
                     group_weights,                                                                          \
                     group_partial,                                                                          \
                     &group_flag}
#define END_GROUP(g)

#define FOR_EACH_SLOT(slot) UNROLL_FOR (int slot = 0; slot < TM; slot++)
#define FOR_EACH_SCORE(g, e, slot, inner)                                                                    \
    UNROLL_FOR (int slot = 0; slot < TM; slot++)                                                             \
        UNROLL_FOR (int e = slot * TN, inner = (g)->tx; e < (slot + 1) * TN; e++, inner += TX)
#define FOR_EACH_OUTPUT(g, e, slot, d, dim_class)                                                            \
    UNROLL_FOR (int slot = 0; slot < TM; slot++)                                                             \
        UNROLL_FOR (int e = slot * ((dim_class) / TX), d = (g)->tx; d < (dim_class); e++, d += TX)

static inline ilanes outer_row(const group *g, const int slot) { return g->ty + slot * TY; }
/* True for the one work-item of a row that writes what there is once a row. */
static inline bool owns_slots(const group *g) { return g->tx == 0; }
/* True for one work-item of the group. */
static inline bool leads_group(const group *g) { return g->item == 0; }

typedef view held;
static inline void hold(const group *g, const view outer, held *to) { *to = outer; }

/* stage[d - d0][row] = v[row][d] for `rows` rows and BK dims. */
static inline void stage_transposed(const group *g, __local real *stage, const view *v, const int rows,
                                    const int d0)
{
    for (int n = g->item; n < rows * BK; n += TX * TY)
        stage[(n % BK) * (rows + 1) + n / BK] = view_at(v, n / BK, d0 + n % BK);
}

/* scores[i][j] = or += sum_d outer[i][d] inner[j][d], d ascending in one chain: the same bits in every kernel */
static inline void multiply_scores(const group *g, lanes *scores, const held *outer, const view *inner,
                                   const bool adds)
{
    if (!adds)
        FOR_EACH_SCORE (g, e, slot, j)
            scores[e] = 0;
    __local real *rows = g->stage, *columns = g->stage + BK * (BM + 1);
    for (int d0 = 0; d0 < inner->dims; d0 += BK) {
        stage_transposed(g, rows, outer, BM, d0);
        stage_transposed(g, columns, inner, BN, d0);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int d = 0; d < BK; d++)
            FOR_EACH_SCORE (g, e, slot, j)
                scores[e] = MULTIPLY_ADD(rows[d * (BM + 1) + outer_row(g, slot)], columns[d * (BN + 1) + j],
                                         scores[e]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

typedef struct {
    __local const real *weights;
} operand;

/* Makes scores readable by the whole group; they stay until the next call. */
static inline operand hand_over(const group *g, const lanes *scores)
{
    FOR_EACH_SCORE (g, e, slot, j)
        g->weights[outer_row(g, slot) * WEIGHT_STRIDE + j] = scores[e];
    barrier(CLK_LOCAL_MEM_FENCE);
    const operand weights = {g->weights};
    return weights;
}

/* Output columns that are summed at once: 4 keeps partial sums in registers. */
#define CHUNK 4

/* sums[slot][c] = sum_j weights[row of slot][j] stage[j][d0 + c TX] over the staged slice */
static inline void sum_slice(const group *g, real sums[TM][CHUNK], __local const real *weights, const int d0,
                             const int dim_class, const bool careful)
{
    UNROLL_FOR (int slot = 0; slot < TM; slot++)
        UNROLL_FOR (int c = 0; c < CHUNK; c++)
            sums[slot][c] = 0;
    for (int j = 0; j < BK; j++) {
        real values[CHUNK];
        UNROLL_FOR (int c = 0; c < CHUNK; c++)
            values[c] = d0 + c * TX < dim_class ? g->stage[j * dim_class + d0 + c * TX] : (real)0;
        UNROLL_FOR (int slot = 0; slot < TM; slot++) {
            const real weight = weights[outer_row(g, slot) * WEIGHT_STRIDE + j];
            if (careful && IS_MARKED(weight))
                continue;
            UNROLL_FOR (int c = 0; c < CHUNK; c++)
                sums[slot][c] = MULTIPLY_ADD(weight, values[c], sums[slot][c]);
        }
    }
}

/* output[i][d] = keep[i] output[i][d] + sum_j weights[i][j] inner[j][d]; keep NULL is 1. Each slice is summed
 * from zero: rounding then grows with the number of slices, not of rows. */
static inline void multiply_values(const group *g, lanes *output, const int dim_class, const lanes *keep,
                                   const operand weights, const view *inner, const bool careful)
{
    const int columns = dim_class / TX;
    for (int j0 = 0; j0 < BN; j0 += BK) {
        for (int n = g->item; n < BK * dim_class; n += TX * TY)
            g->stage[n] = view_at(inner, j0 + n / dim_class, n % dim_class);
        barrier(CLK_LOCAL_MEM_FENCE);
        UNROLL_FOR (int c0 = 0; c0 < columns; c0 += CHUNK) {
            real sums[TM][CHUNK];
            sum_slice(g, sums, weights.weights + j0, g->tx + c0 * TX, dim_class, careful);
            UNROLL_FOR (int slot = 0; slot < TM; slot++)
                UNROLL_FOR (int c = 0; c < CHUNK; c++)
                    if (c0 + c < columns) {
                        lanes *to = output + slot * columns + c0 + c;
                        *to = keep && j0 == 0 ? MULTIPLY_ADD(*to, keep[slot], sums[slot][c])
                                              : *to + sums[slot][c];
                    }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

static inline void group_barrier(const group *g) { barrier(CLK_LOCAL_MEM_FENCE); }

/* Makes slots the maximum or the sum over all work-items of the row. */
static inline void reduce_rows(const group *g, lanes *slots, const bool maximum)
{
    FOR_EACH_SLOT (slot)
        g->partial[outer_row(g, slot) * TX + g->tx] = slots[slot];
    barrier(CLK_LOCAL_MEM_FENCE);
    FOR_EACH_SLOT (slot) {
        __local const real *row = g->partial + outer_row(g, slot) * TX;
        real all = row[0];
        for (int x = 1; x < TX; x++)
            all = maximum ? fmax(all, row[x]) : all + row[x];
        slots[slot] = all;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
static inline void reduce_maximum(const group *g, lanes *slots) { reduce_rows(g, slots, true); }
static inline void reduce_sum(const group *g, lanes *slots) { reduce_rows(g, slots, false); }

/* True for all if true for one. */
static inline bool group_any(const group *g, const bool condition)
{
    if (g->item == 0)
        *g->flag = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (condition)
        atomic_or(g->flag, 1);
    barrier(CLK_LOCAL_MEM_FENCE);
    const bool any = *g->flag != 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    return any;
}
