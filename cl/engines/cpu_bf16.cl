/*
 * Words of the engines that multiply bf16 as it is, in pairs, for the loops and
 * layouts of cpu.cl. All products are sums of one kind, made by the file that
 * comes before (amx_tiles.cl, dot_pairs.cl) in blocks:
 *
 *     C[m][n] += sum_k A[m][k] B[k][n]        16 x 16 floats, 32 steps of k
 *
 *     A   row m:  k = 0 .. 31
 *     B   row r:  the two k that stand at 2r and 2r + 1 of A, a pair for each n
 *     C   row m:  n = 0 .. 15
 *
 *     C                          A                               B, in pairs
 *     scores [inner][lanes]      inner rows as they lie          outer rows
 *     outputs [dim][lanes]       inner rows, transposed          weights
 *     sums in memory [row][dim]  weights, inner rows as they lie outer rows
 *
 * Blocks are never read or written beyond what they are of: where rows or dims
 * do not fill one, a copy padded with zeros takes their place. bf16 in, sums
 * in float.
 */
#define MOST_STEPS STEPS(WIDEST_DIM)
#define WEIGHT_STEPS (INNER / STEP)

/* ---- rounding ---- */

/* Weights are rounded when they are made, so that sums of them are sums of what is multiplied. Half a unit is rounded
 * away from zero: as good as to even here. */
#define ENGINE_ROUNDS_WEIGHTS 1
static inline lanes ROUND_WEIGHT(const lanes x)
{
    const lanes rounded = as_float16((as_uint16(x) + 0x8000u) & 0xffff0000u);
    return x == x ? rounded : x;
}

#if !EMULATES_TILES
#define ROUNDING_FUNCTION                                                                                    \
    static __attribute__((noinline, target("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl")))
/* The bf16 of a, then those of b. */
#define ROW_OF_VECTORS(a, b)                                                                                 \
    __builtin_ia32_cvtne2ps2bf16_512(__builtin_astype(b, float_vector), __builtin_astype(a, float_vector))
typedef float float_vector __attribute__((vector_size(VECTOR_BYTES)));
typedef ushort ushort_vector __attribute__((vector_size(VECTOR_BYTES)));
#define row_of_vectors(a, b) __builtin_astype(ROW_OF_VECTORS(a, b), ulanes)

/* The bf16 of a in the lower halves, those of b in the upper ones. */
#define pair_of_rows(a, b)                                                                                   \
    __builtin_astype(alternate(__builtin_astype(ROW_OF_VECTORS(a, b), ushort_vector)), ulanes)
#define alternate(x)                                                                                         \
    __builtin_shufflevector(x, x, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10,  \
                            26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#else
#define ROUNDING_FUNCTION NOT_INLINED
/* The bf16 of a in the lower halves, those of b in the upper ones. */
static inline ulanes pair_of_rows(const lanes a, const lanes b)
{
    return CONVERT_TO(uint)(bf16_of_lanes(a)) | CONVERT_TO(uint)(bf16_of_lanes(b)) << 16;
}

/* The bf16 of a, then those of b. */
static inline ulanes row_of_vectors(const lanes a, const lanes b)
{
    return (ulanes)(as_uint8(bf16_of_lanes(a)), as_uint8(bf16_of_lanes(b)));
}
#endif

/* ---- what a work-item keeps between products ---- */

struct product_room {
    view copied, transposed;                          /* the rows that are in the next two */
    ulanes rows[INNER * MOST_STEPS];                  /* [INNER][MOST_STEPS] vectors of 32 bf16 */
    ulanes columns[WEIGHT_STEPS * MOST_STEPS * STEP]; /* [WEIGHT_STEPS][dim], likewise */
    const lanes *paired, *rounded;                    /* the weights that are in the next two */
    ulanes pairs[SCORES / 2];                         /* blocks of B, [VECTORS][WEIGHT_STEPS] */
#if BACKWARD_AT_ONCE
    ulanes weight_rows[SCORES / 2]; /* [INNER][OUTER] */
    lanes sums[BLOCK_ROWS * HEAD_DIM_CLASS / LANES];
#endif
};

/* Weights are new after a product of scores. */
static inline void forget_weights(product_room *room) { room->paired = room->rounded = 0; }

#define GROUP(g)                                                                                             \
    product_room group_room;                                                                                 \
    group_room.copied.data = group_room.transposed.data = 0;                                                 \
    forget_weights(&group_room);                                                                             \
    BEGIN_BLOCKS();                                                                                          \
    rows_ahead group_ahead = {0, 0, 0, 0};                                                                   \
    const group g = {(long)get_group_id(0), &group_room, &group_ahead}
#define END_GROUP(g) END_BLOCKS()

/* 32 dims of a row from d on; dims behind the last one are 0. */
static inline ulanes load_step(__global const in_t *row, const int d, const int dims)
{
    if (d + STEP <= dims)
        return (ulanes)(as_uint8(vload16(0, row + d)), as_uint8(vload16(1, row + d)));
    ulanes x = (ulanes)(0);
    for (int i = 0; i < STEP && d + i < dims; i++)
        x[i / 2] |= (uint)row[d + i] << (i % 2 * 16);
    return x;
}

/* ---- outer rows ---- */

/* Pairs of dims, a row in each lane: a block of B for each vector and step. */
typedef struct {
    ulanes x[VECTORS * MOST_STEPS * BLOCK_ROWS];
} held;

NOT_INLINED void hold_vector(const view *rows, const int first, ulanes *to)
{
    for (int k = 0; k < STEPS(rows->dims); k++) {
        int_lanes block[LANES];
        for (int i = 0; i < LANES; i++)
            block[i] =
                first + i < rows->rows
                    ? as_int16(load_step(rows->data + (first + i) * rows->stride, k * STEP, rows->dims))
                    : (int_lanes)(0);
        transpose_words(block);
        for (int r = 0; r < BLOCK_ROWS; r++)
            to[k * BLOCK_ROWS + r] = as_uint16(block[r]);
    }
}

static inline void hold(const group *g, const view outer, held *to)
{
    for (int slot = 0; slot < VECTORS; slot++)
        hold_vector(&outer, slot * LANES, to->x + slot * MOST_STEPS * BLOCK_ROWS);
}

/* ---- inner rows ---- */

static inline int rows_at_hand(const view *rows) { return clamp(rows->rows, 0, INNER); }

NOT_INLINED void copy_rows(const view *rows, ulanes *to)
{
    const int count = rows_at_hand(rows);
    for (int j = 0; j < INNER; j++)
        for (int k = 0; k < STEPS(rows->dims); k++)
            to[j * MOST_STEPS + k] =
                j < count ? load_step(rows->data + j * rows->stride, k * STEP, rows->dims) : (ulanes)(0);
}

/*
 * Keys r and r + 16 of a step are a pair: dims 2n and 2n + 1 of a row are one
 * number when 16 rows are transposed, and two rows made so come apart by
 * halves.
 */
NOT_INLINED void transpose_rows(const view *rows, ulanes *to)
{
    const int count = rows_at_hand(rows);
    for (int j = 0; j < count; j += STEP, to += MOST_STEPS * STEP)
        for (int k = 0; k < STEPS(rows->dims); k++) {
            int_lanes block[2][LANES];
            for (int side = 0; side < 2; side++) {
                for (int i = 0; i < LANES; i++) {
                    const int row = j + side * LANES + i;
                    block[side][i] =
                        row < count
                            ? as_int16(load_step(rows->data + row * rows->stride, k * STEP, rows->dims))
                            : (int_lanes)(0);
                }
                transpose_words(block[side]);
            }
            for (int n = 0; n < LANES; n++) {
                const ulanes low = as_uint16(block[0][n]), high = as_uint16(block[1][n]);
                to[k * STEP + 2 * n] = (low & 0xffffu) | high << 16;
                to[k * STEP + 2 * n + 1] = low >> 16 | (high & 0xffff0000u);
            }
        }
}

/* ---- products ---- */

/* At each product, as many of the rows ahead as a processor keeps in flight. */
static inline void prefetch_some(const group *g)
{
    for (int n = 0; n < 4; n++)
        prefetch_ahead(g->ahead);
}

/* scores[i][j] = or += sum_d outer[i][d] inner[j][d] */
static inline void multiply_scores(const group *g, lanes *scores, const held *outer, const view *inner,
                                   const bool adds)
{
    block_product p = {.a = (address)inner->data,
                       .a_row = inner->stride * 2,
                       .a_step = VECTOR_BYTES,
                       .b = (address)outer->x,
                       .b_column = MOST_STEPS * BLOCK_BYTES,
                       .c = (address)scores,
                       .c_row = VECTORS * VECTOR_BYTES,
                       .rows = INNER / BLOCK_ROWS,
                       .columns = VECTORS,
                       .steps = STEPS(inner->dims),
                       .adds = adds};
    if (inner->rows < INNER || inner->dims % STEP != 0) {
        if (!same_rows(inner, &g->room->copied))
            copy_rows(inner, g->room->rows);
        g->room->copied = *inner;
        p.a = (address)g->room->rows;
        p.a_row = MOST_STEPS * VECTOR_BYTES;
    }
    prefetch_some(g);
    multiply_blocks(&p);
    forget_weights(g->room);
}

typedef struct {
    const lanes *weights;
} operand;

/* Weights r and r + 16 of a step in pairs. */
ROUNDING_FUNCTION void pair_weights(const lanes *weights, ulanes *to)
{
    for (int k = 0; k < WEIGHT_STEPS; k++)
        for (int r = 0; r < BLOCK_ROWS; r++)
            UNROLL_FOR (int slot = 0; slot < VECTORS; slot++) {
                const lanes a = weights[(k * STEP + r) * VECTORS + slot];
                const lanes b = weights[(k * STEP + r + BLOCK_ROWS) * VECTORS + slot];
                to[(slot * WEIGHT_STEPS + k) * BLOCK_ROWS + r] = pair_of_rows(a, b);
            }
}

static inline operand hand_over(const group *g, const lanes *scores)
{
    if (g->room->paired != scores)
        pair_weights(scores, g->room->pairs);
    g->room->paired = scores;
    const operand weights = {scores};
    return weights;
}

NOT_INLINED void scale_outputs(lanes *output, const lanes *keep, const int dims)
{
    ilanes stays = TO_ILANES(ALL_LANES);
    for (int slot = 0; slot < VECTORS; slot++)
        stays = stays & (keep[slot] == 1);
    if (EVERY_LANE(stays))
        return;
    for (int d = 0; d < dims; d++)
        UNROLL_FOR (int slot = 0; slot < VECTORS; slot++)
            output[d * VECTORS + slot] *= keep[slot];
}

/* Leaves out terms whose weight is marked; rare, so plain loops, and weights as they were before rounding. */
NOT_INLINED void add_values_carefully(lanes *output, const lanes *weights, const view *inner)
{
    for (int d = 0; d < inner->dims; d++)
        for (int slot = 0; slot < VECTORS; slot++) {
            lanes sum = (lanes)(0);
            for (int j = 0; j < rows_at_hand(inner); j++) {
                const lanes weight = weights[j * VECTORS + slot];
                const lanes with = fma(weight, (lanes)(view_at(inner, j, d)), sum);
                sum = IS_MARKED(weight) ? sum : with;
            }
            output[d * VECTORS + slot] += sum;
        }
}

/* output[i][d] = keep[i] output[i][d] + sum_j weights[i][j] inner[j][d]; keep NULL is 1 */
static inline void multiply_values(const group *g, lanes *output, const int dim_class, const lanes *keep,
                                   const operand weights, const view *inner, const bool careful)
{
    if (keep)
        scale_outputs(output, keep, inner->dims);
    if (careful) {
        add_values_carefully(output, weights.weights, inner);
        return;
    }
    if (!same_rows(inner, &g->room->transposed))
        transpose_rows(inner, g->room->columns);
    g->room->transposed = *inner;
    const block_product p = {.a = (address)g->room->columns,
                             .a_row = VECTOR_BYTES,
                             .a_step = MOST_STEPS * STEP * VECTOR_BYTES,
                             .b = (address)g->room->pairs,
                             .b_column = WEIGHT_STEPS * BLOCK_BYTES,
                             .c = (address)output,
                             .c_row = VECTORS * VECTOR_BYTES,
                             .rows = (inner->dims + BLOCK_ROWS - 1) / BLOCK_ROWS,
                             .columns = VECTORS,
                             .steps = STEPS(rows_at_hand(inner)),
                             .adds = true};
    prefetch_some(g);
    multiply_blocks(&p);
}

/* ---- sums over outer rows, added to inner rows in memory ---- */

#if BACKWARD_AT_ONCE
#define ROW_STEPS (OUTER / STEP)
#define DIM_BLOCKS (HEAD_DIM_CLASS / LANES)

/* Outer rows 2r and 2r + 1 in pairs, a dim in each lane: [DIM_BLOCKS][ROW_STEPS] blocks of B. */
typedef struct {
    ulanes x[DIM_BLOCKS * ROW_STEPS * BLOCK_ROWS];
} held_rows;

NOT_INLINED void hold_row_pairs(const view *rows, ulanes *to)
{
    for (int n = 0; n < DIM_BLOCKS; n++)
        for (int r = 0; r < OUTER / 2; r++) {
            lanes pair[2];
            for (int i = 0; i < 2; i++)
                pair[i] = 2 * r + i < rows->rows
                              ? load_dims(rows->data + (2 * r + i) * rows->stride, n * LANES, rows->dims)
                              : (lanes)(0);
            to[n * ROW_STEPS * BLOCK_ROWS + r] = as_uint16(pair[0]) >> 16 | as_uint16(pair[1]);
        }
}

static inline void hold_rows(const group *g, const view outer, held_rows *to)
{
    hold_row_pairs(&outer, to->x);
}

/* Dims n LANES and on of outer row i. */
static inline lanes held_row(const held_rows *rows, const int i, const int n)
{
    const ulanes pair = rows->x[n * ROW_STEPS * BLOCK_ROWS + i / 2];
    return as_float16(i % 2 ? pair & 0xffff0000u : pair << 16);
}

/* Weights of an inner row one after the other. */
ROUNDING_FUNCTION void round_weights(const lanes *weights, ulanes *to)
{
    for (int n = 0; n < SCORES / 2; n++)
        to[n] = row_of_vectors(weights[2 * n], weights[2 * n + 1]);
}

NOT_INLINED void add_rows_carefully(const row_sums *to, const lanes *weights, const held_rows *outer)
{
    for (int j = 0; j < min(INNER, to->rows); j++)
        for (int n = 0; n < to->dims / LANES; n++) {
            __global real *here = to->data + j * to->stride + n * LANES;
            lanes sum = (lanes)(0);
            for (int i = 0; i < OUTER; i++) {
                const lanes weight = (lanes)(((const real *)weights)[j * OUTER + i]);
                sum = IS_MARKED(weight) ? sum : fma(weight, held_row(outer, i, n), sum);
            }
            STORE_REAL_LANES(load_real(here) + sum, here);
        }
}

/* Sums of the last rows, too few for a block. */
static inline void add_last_rows(const group *g, const row_sums *to, const int first, block_product p)
{
    lanes *sums = g->room->sums;
    p.a += first * p.a_row;
    p.c = (address)sums;
    p.rows = 1;
    p.adds = false;
    multiply_blocks(&p);
    for (int j = first; j < min(INNER, to->rows); j++)
        for (int n = 0; n < p.columns; n++, sums++) {
            __global real *here = to->data + j * to->stride + n * LANES;
            STORE_REAL_LANES(load_real(here) + *sums, here);
        }
}

/* to[j][d] += sum_i weights[i][j] outer[i][d] for the inner rows j that `to` has */
static inline void add_to_inner_rows(const group *g, const row_sums *to, const lanes *weights,
                                     const held_rows *outer, const bool careful)
{
    if (careful) {
        add_rows_carefully(to, weights, outer);
        return;
    }
    if (g->room->rounded != weights)
        round_weights(weights, g->room->weight_rows);
    g->room->rounded = weights;
    const int count = min(INNER, to->rows);
    const block_product p = {.a = (address)g->room->weight_rows,
                             .a_row = OUTER * 2,
                             .a_step = VECTOR_BYTES,
                             .b = (address)outer->x,
                             .b_column = ROW_STEPS * BLOCK_BYTES,
                             .c = (address)to->data,
                             .c_row = to->stride * 4,
                             .rows = count / BLOCK_ROWS,
                             .columns = (int)(to->dims / LANES),
                             .steps = ROW_STEPS,
                             .adds = true};
    multiply_blocks(&p);
    if (count % BLOCK_ROWS)
        add_last_rows(g, to, count / BLOCK_ROWS * BLOCK_ROWS, p);
}
#endif
