/*
 * Engine "cpu": a tile is one work-item's, and its outer rows lie in the lanes
 * of VECTORS vectors. No barriers, nothing is reduced across lanes.
 *
 *        lanes: outer rows (OUTER)              lanes: outer rows
 *       +-------------------------+            +-------------------------+
 *     j |  scores [INNER][OUTER]  |          d |  outputs [dim][OUTER]   |
 *       +-------------------------+            +-------------------------+
 *       = inner[j][d] (a scalar, broadcast)    = inner[j][d] (broadcast)
 *         x outer^T[d][lanes], over d            x weights[j][lanes], over j
 *
 * Inner rows are read by scalars where they lie, whatever their stride; outer
 * rows are transposed into the lanes once a tile. Both products are one inner
 * loop: a strip of ROWS broadcast rows by VECTORS vectors stays in registers.
 */
#ifndef VECTORS
#define VECTORS 3 /* vectors of outer rows */
#endif
#ifndef ROWS
#define ROWS                                                                                                 \
    8 /* rows of a strip: ROWS VECTORS accumulators, VECTORS operands and a broadcast fill the registers */
#endif
#ifndef BN
#define BN 64 /* inner rows a step; a multiple of ROWS */
#endif

#define OUTER (LANES * VECTORS)
#define INNER BN
#define OUTER_SLOTS VECTORS
#define SCORES (INNER * VECTORS)
#define OUTPUTS(dim_class) ((dim_class)*VECTORS)
#define ENGINE_ATTRIBUTES __attribute__((reqd_work_group_size(1, 1, 1)))
#define ENGINE_SPLITS_PLAIN_TILES 1
#define UNROLL_LIST_FOR for /* products are calls */
#define WIDEST_DIM (HEAD_DIM_CLASS > HEAD_DIM_V_CLASS ? HEAD_DIM_CLASS : HEAD_DIM_V_CLASS)
#define NOT_INLINED static __attribute__((noinline))

/* Inner rows of 16 bits are converted a tile at a time; others are read where they lie. */
#define CONVERTS_ROWS (IN_TYPE == TYPE_F16 || IN_TYPE == TYPE_BF16)
#if CONVERTS_ROWS
typedef const real source_number;
#define ROOM_FOR_ROWS (INNER * WIDEST_DIM)
#else
typedef __global const real source_number;
#define ROOM_FOR_ROWS 1
#endif

#if IN_TYPE == TYPE_F16
#define LOAD_IN_LANES load_f16
#elif IN_TYPE == TYPE_BF16
#define LOAD_IN_LANES load_bf16
#elif IN_TYPE == TYPE_F64
#define LOAD_IN_LANES load_f64
#else
#define LOAD_IN_LANES load_f32
#endif
#if OUT_TYPE == TYPE_F16
#define STORE_OUT_LANES store_f16
#elif OUT_TYPE == TYPE_BF16
#define STORE_OUT_LANES store_bf16
#elif OUT_TYPE == TYPE_F64
#define STORE_OUT_LANES store_f64
#else
#define STORE_OUT_LANES store_f32
#endif
#if IN_TYPE == TYPE_F64
#define STORE_REAL_LANES store_f64
#define load_real load_f64
#else
#define STORE_REAL_LANES store_f32
#define load_real load_f32
#endif
#if BIAS_TYPE == TYPE_F16
#define LOAD_BIAS_LANES load_f16
#elif BIAS_TYPE == TYPE_BF16
#define LOAD_BIAS_LANES load_bf16
#elif BIAS_TYPE == TYPE_F64
#define LOAD_BIAS_LANES load_f64
#else
#define LOAD_BIAS_LANES load_f32
#endif

/* Inner rows at hand: dim d of row j at data[j stride + d]. */
typedef struct {
    source_number *data;
    long stride;
    int rows; /* of the tile: 0 .. INNER */
    int dims;
} inner_tile;

typedef long tile_number;

typedef struct {
    tile_number tile;                  /* which tile of the launch this is */
    real *room;                 /* [ROOM_FOR_ROWS] converted inner rows */
    __global const in_t **kept; /* whose rows they are */
} group;

#define GROUP(g)                                                                                             \
    lanes group_room[(ROOM_FOR_ROWS + LANES - 1) / LANES]; /* aligned for lanes */                           \
    __global const in_t *group_kept = 0;                                                                     \
    const group g = {(long)get_group_id(0), (real *)group_room, &group_kept}

#define FOR_EACH_SLOT(slot) UNROLL_FOR (int slot = 0; slot < VECTORS; slot++)
#define FOR_EACH_SCORE(g, e, slot, inner)                                                                    \
    for (int inner = 0; inner < INNER; inner++)                                                              \
        UNROLL_FOR (int slot = 0, e = inner * VECTORS; slot < VECTORS; slot++, e++)
#define FOR_EACH_OUTPUT(g, e, slot, d, dim_class)                                                            \
    for (int d = 0; d < (dim_class); d++)                                                                    \
        UNROLL_FOR (int slot = 0, e = d * VECTORS; slot < VECTORS; slot++, e++)

static inline ilanes outer_row(const group *g, const int slot) { return lane_numbers() + slot * LANES; }
static inline bool owns_slots(const group *g) { return true; }
/* True for one work-item of the group. */
static inline bool leads_group(const group *g) { return true; }

/* LANES dims of a row from d on; dims behind the last one are 0. */
static inline lanes load_dims(__global const in_t *row, const int d, const int dims)
{
    if (d + LANES <= dims)
        return LOAD_IN_LANES(row + d);
    lanes x = (lanes)(0);
    for (int i = 0; i < LANES && d + i < dims; i++)
        x[i] = LOAD_IN(row + d + i);
    return x;
}

/* ---- outer rows ---- */

/* x[d][lanes] */
typedef struct {
    lanes x[WIDEST_DIM * VECTORS];
} held;

/* LANES rows from `first` on, transposed into one vector a dim. */
NOT_INLINED void hold_vector(const view *rows, const int first, lanes *to)
{
    for (int d = 0; d < rows->dims; d += LANES) {
        lanes block[LANES];
        for (int i = 0; i < LANES; i++)
            block[i] = first + i < rows->rows
                           ? load_dims(rows->data + (first + i) * rows->stride, d, rows->dims)
                           : (lanes)(0);
        transpose(block);
        for (int i = 0; i < LANES; i++)
            to[(d + i) * VECTORS] = block[i];
    }
}

static inline void hold(const group *g, const view outer, held *to)
{
    for (int slot = 0; slot < VECTORS; slot++)
        hold_vector(&outer, slot * LANES, to->x + slot);
}

/* ---- inner rows ---- */

NOT_INLINED void convert_rows(const view *rows, const int count, real *to)
{
    for (int j = 0; j < count; j++)
        for (int d = 0; d < rows->dims; d += LANES)
            *(lanes *)(to + j * WIDEST_DIM + d) = load_dims(rows->data + j * rows->stride, d, rows->dims);
}

static inline inner_tile inner_tile_of(const group *g, const view *rows)
{
    const int count = clamp(rows->rows, 0, INNER);
#if CONVERTS_ROWS
    if (*g->kept != rows->data) {
        convert_rows(rows, count, g->room);
        *g->kept = rows->data;
    }
    const inner_tile tile = {g->room, WIDEST_DIM, count, rows->dims};
#else
    const inner_tile tile = {rows->data, rows->stride, count, rows->dims};
#endif
    return tile;
}

/* ---- products ---- */

typedef enum {
    SET,
    ADD,
    SCALE_AND_ADD
} how;

/*
 * The inner loop: to[r][v] (=, +=, or keep[v] times itself +=) the sum over n
 * of row[r][n step] x[n x_step + v]: ROWS rows of scalars by WIDTH vectors.
 * With `careful`, terms whose weight is marked are left out; the weight is x
 * or the scalar, as WEIGHT says. Copies differ in where scalars come from.
 */
#define DEFINE_PRODUCT(NAME, SCALAR, WIDTH, WEIGHT)                                                          \
    typedef struct {                                                                                         \
        SCALAR *row[ROWS];                                                                                   \
        long step;                                                                                           \
        const lanes *x;                                                                                      \
        int x_step;                                                                                          \
        int count;                                                                                           \
    } NAME##_operands;                                                                                       \
    static inline void NAME##_sums(const NAME##_operands *o, const bool careful, lanes sum[ROWS][WIDTH])     \
    {                                                                                                        \
        UNROLL_FOR (int r = 0; r < ROWS; r++)                                                                \
            UNROLL_FOR (int v = 0; v < WIDTH; v++)                                                           \
                sum[r][v] = (lanes)(0);                                                                      \
        const lanes *x = o->x;                                                                               \
        const long step = o->step;                                                                           \
        const int count = o->count, x_step = o->x_step;                                                      \
        long at = 0;                                                                                         \
        _Pragma("nounroll") for (int n = 0; n < count; n++, at += step, x += x_step)                         \
        {                                                                                                    \
            lanes operand[WIDTH];                                                                            \
            UNROLL_FOR (int v = 0; v < WIDTH; v++)                                                           \
                operand[v] = x[v];                                                                           \
            UNROLL_FOR (int r = 0; r < ROWS; r++) {                                                          \
                const lanes scalar = (lanes)(o->row[r][at]);                                                 \
                UNROLL_FOR (int v = 0; v < WIDTH; v++) {                                                     \
                    const lanes with = MULTIPLY_ADD(scalar, operand[v], sum[r][v]);                          \
                    sum[r][v] = careful ? (IS_MARKED(WEIGHT(scalar, operand[v])) ? sum[r][v] : with) : with; \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }
#define SCALAR_WEIGHT(scalar, x) (scalar)
#define VECTOR_WEIGHT(scalar, x) (x)
DEFINE_PRODUCT(by_rows, source_number, VECTORS, VECTOR_WEIGHT)

static inline void multiply(lanes *to, const by_rows_operands *o, const lanes *keep, const how how,
                            const bool careful)
{
    lanes sum[ROWS][VECTORS];
    by_rows_sums(o, careful, sum);
    UNROLL_FOR (int r = 0; r < ROWS; r++)
        UNROLL_FOR (int v = 0; v < VECTORS; v++) {
            lanes *here = to + r * VECTORS + v;
            if (how == SET)
                *here = sum[r][v];
            else if (how == ADD)
                *here += sum[r][v];
            else
                *here = MULTIPLY_ADD(*here, keep[v], sum[r][v]);
        }
}

/* One copy of the inner loop for all products of a program. */
NOT_INLINED void multiply_plainly(lanes *to, const by_rows_operands *o, const lanes *keep, const how how)
{
    multiply(to, o, keep, how, false);
}

NOT_INLINED void multiply_carefully(lanes *to, const by_rows_operands *o, const lanes *keep, const how how)
{
    multiply(to, o, keep, how, true);
}

/* scores[i][j] = or += sum_d outer[i][d] inner[j][d] */
static inline void multiply_scores(const group *g, lanes *scores, const held *outer, const view *inner,
                                   const bool adds)
{
    const inner_tile rows = inner_tile_of(g, inner);
    const how how = adds ? ADD : SET;
    by_rows_operands o;
    o.step = 1;
    o.x = outer->x;
    o.x_step = VECTORS;
    o.count = rows.dims;
    int j = 0;
    for (; j < rows.rows; j += ROWS) {
        for (int r = 0; r < ROWS; r++) /* those behind the last row repeat it: they are masked */
            o.row[r] = rows.data + min(j + r, rows.rows - 1) * rows.stride;
        multiply_plainly(scores + j * VECTORS, &o, 0, how);
    }
    if (!adds)
        for (int e = j * VECTORS; e < SCORES; e++)
            scores[e] = (lanes)(0);
}

typedef struct {
    const lanes *weights;
} operand;
static inline operand hand_over(const group *g, const lanes *scores)
{
    const operand weights = {scores};
    return weights;
}

/* output[i][d] = keep[i] output[i][d] + sum_j weights[i][j] inner[j][d]; keep NULL is 1. A tile is summed from zero:
 * rounding then grows with the number of tiles, not of rows. */
static inline void multiply_values(const group *g, lanes *output, const int dim_class, const lanes *keep,
                                   const operand weights, const view *inner, const bool careful)
{
    const inner_tile rows = inner_tile_of(g, inner);
    const how how = keep ? SCALE_AND_ADD : ADD;
    by_rows_operands o;
    o.step = rows.stride;
    o.x = weights.weights;
    o.x_step = VECTORS;
    o.count = rows.rows;
    for (int d = 0; d < rows.dims; d += ROWS) {
        for (int r = 0; r < ROWS; r++) /* those behind the last dim repeat it: they are not stored */
            o.row[r] = rows.data + min(d + r, rows.dims - 1);
        if (careful)
            multiply_carefully(output + d * VECTORS, &o, keep, how);
        else
            multiply_plainly(output + d * VECTORS, &o, keep, how);
    }
}

/* ---- sums over outer rows, added to inner rows in memory ---- */

#if BACKWARD_AT_ONCE
/* Vectors of dims that are summed at once; head-dim classes are made of whole ones. */
#define SUM_VECTORS (LANES < 16 ? 4 : HEAD_DIM_CLASS < 32 ? 1 : 2)

/* Outer rows with their dims in the lanes: x[row][dim]; what lies behind the last row or dim is 0. */
typedef struct {
    lanes x[OUTER * HEAD_DIM_CLASS / LANES];
} held_rows;

static inline void hold_rows(const group *g, const view outer, held_rows *to)
{
    for (int i = 0; i < OUTER; i++)
        for (int d = 0; d < HEAD_DIM_CLASS; d += LANES)
            to->x[(i * HEAD_DIM_CLASS + d) / LANES] =
                i < outer.rows && d < outer.dims ? load_dims(outer.data + i * outer.stride, d, outer.dims)
                                                 : (lanes)(0);
}

DEFINE_PRODUCT(by_weights, const real, SUM_VECTORS, SCALAR_WEIGHT)

static inline void add_sums(const row_sums *to, const by_weights_operands *o, const int first, const int d,
                            const bool careful)
{
    lanes sum[ROWS][SUM_VECTORS];
    by_weights_sums(o, careful, sum);
    UNROLL_FOR (int r = 0; r < ROWS; r++)
        UNROLL_FOR (int v = 0; v < SUM_VECTORS; v++) {
            __global real *here = to->data + (first + r) * to->stride + d + v * LANES;
            if (first + r < to->rows && d + v * LANES < to->stride)
                STORE_REAL_LANES(load_real(here) + sum[r][v], here);
        }
}

NOT_INLINED void add_sums_plainly(const row_sums *to, const by_weights_operands *o, const int first,
                                  const int d)
{
    add_sums(to, o, first, d, false);
}

NOT_INLINED void add_sums_carefully(const row_sums *to, const by_weights_operands *o, const int first,
                                    const int d)
{
    add_sums(to, o, first, d, true);
}

/* to[j][d] += sum_i weights[i][j] outer[i][d] for the inner rows j that `to` has */
static inline void add_to_inner_rows(const group *g, const row_sums *to, const lanes *weights,
                                     const held_rows *outer, const bool careful)
{
    by_weights_operands o;
    o.step = 1;
    o.x_step = HEAD_DIM_CLASS / LANES;
    o.count = OUTER;
    for (int j = 0; j < INNER && j < to->rows; j += ROWS) {
        for (int r = 0; r < ROWS; r++)
            o.row[r] = (const real *)weights + (j + r) * OUTER;
        for (int d = 0; d < to->dims; d += SUM_VECTORS * LANES) {
            o.x = outer->x + d / LANES;
            if (careful)
                add_sums_carefully(to, &o, j, d);
            else
                add_sums_plainly(to, &o, j, d);
        }
    }
}
#endif

static inline void group_barrier(const group *g) {}
static inline void reduce_maximum(const group *g, lanes *slots) {}
static inline void reduce_sum(const group *g, lanes *slots) {}
static inline bool group_any(const group *g, const bool condition) { return condition; }

/* ---- results ---- */

static inline void store_dims(const target *to, const long row, const int d, const lanes x)
{
    const long at = row * to->stride + d;
    if (d + LANES <= to->dims) {
        if (to->full)
            STORE_REAL_LANES(x, to->full + at);
        else
            STORE_OUT_LANES(x, to->rounded + at);
        return;
    }
    for (int i = 0; i < LANES && d + i < to->dims; i++)
        if (to->full)
            to->full[at + i] = x[i];
        else
            STORE_OUT(x[i], to->rounded + at + i);
}

NOT_INLINED void store_vector(const target *to, const int first, const lanes *from, const real factor)
{
    for (int d = 0; d < to->dims; d += LANES) {
        lanes block[LANES];
        for (int i = 0; i < LANES; i++)
            block[i] = factor * from[(d + i) * VECTORS];
        transpose(block);
        for (int i = 0; i < LANES && first + i < to->rows; i++)
            store_dims(to, first + i, d, block[i]);
    }
}

/* Writes factor * output. */
static inline void store_rows(const group *g, const target *to, const lanes *output, const int dim_class,
                              const real factor)
{
    for (int slot = 0; slot < VECTORS; slot++)
        store_vector(to, slot * LANES, output + slot, factor);
}

/* ---- numbers that a tensor holds for each pair, in the order of scores ---- */

typedef ilanes byte_room[SCORES];
typedef lanes bias_room[SCORES];

/* A tile of a tensor over pairs: distances between elements, and the tile's first row of each kind and how many there
 * are of it in the sequence. Rows outside the sequence take the number of one inside; position masks them. */
typedef struct {
    long outer_step, inner_step;
    int outer_first, inner_first;
    int outer_rows, inner_rows;
} pair_steps;

static inline pair_steps pair_steps_of(const pair_tile *tile, const long row, const long column)
{
    const pair_steps steps = {tile->keys_outer ? column : row,
                              tile->keys_outer ? row : column,
                              tile->outer_first,
                              tile->inner_first,
                              tile->outer_rows,
                              tile->inner_rows};
    return steps;
}

static inline long inner_at(const pair_steps *s, const int j)
{
    return clamp(s->inner_first + j, 0, s->inner_rows - 1) * s->inner_step;
}
static inline long outer_at(const pair_steps *s, const int i)
{
    return clamp(s->outer_first + i, 0, s->outer_rows - 1) * s->outer_step;
}
/* True if `count` rows from row i (j) of the tile on lie in the sequence. */
static inline bool outer_inside(const pair_steps *s, const int i, const int count)
{
    return s->outer_first + i >= 0 && s->outer_first + i + count <= s->outer_rows;
}
static inline bool inner_inside(const pair_steps *s, const int j, const int count)
{
    return s->inner_first + j >= 0 && s->inner_first + j + count <= s->inner_rows;
}

/* Defines void NAME(steps, from, to): `vector`s of `element`s, one by LOAD and LANES neighbours by LOAD_LANES.
 * TRANSPOSE exchanges rows and columns of LANES vectors. */
#define DEFINE_STAGING(NAME, vector, element, LOAD, LOAD_LANES, TRANSPOSE)                                   \
    /* one inner row: LANES outer rows from i on */                                                          \
    static inline vector NAME##_row(const pair_steps *s, __global const element *from, const int i,          \
                                    const int j)                                                             \
    {                                                                                                        \
        __global const element *row = from + inner_at(s, j);                                                 \
        if (s->outer_step == 0)                                                                              \
            return (vector)(LOAD(row));                                                                      \
        if (s->outer_step == 1 && outer_inside(s, i, LANES))                                                 \
            return LOAD_LANES(row + outer_at(s, i));                                                         \
        vector x;                                                                                            \
        for (int lane = 0; lane < LANES; lane++)                                                             \
            x[lane] = LOAD(row + outer_at(s, i + lane));                                                     \
        return x;                                                                                            \
    }                                                                                                        \
    NOT_INLINED void NAME(const pair_steps *s, __global const element *from, vector *to)                     \
    {                                                                                                        \
        for (int j = 0; j < INNER; j += LANES)                                                               \
            for (int slot = 0; slot < VECTORS; slot++) {                                                     \
                vector block[LANES];                                                                         \
                if (s->inner_step == 1 && s->outer_step > 1 && inner_inside(s, j, LANES)) {                  \
                    for (int i = 0; i < LANES; i++)                                                          \
                        block[i] = LOAD_LANES(from + outer_at(s, slot * LANES + i) + s->inner_first + j);    \
                    TRANSPOSE(block);                                                                        \
                } else                                                                                       \
                    for (int i = 0; i < LANES; i++)                                                          \
                        block[i] = NAME##_row(s, from, slot * LANES, j + i);                                 \
                for (int i = 0; i < LANES; i++)                                                              \
                    to[(j + i) * VECTORS + slot] = block[i];                                                 \
            }                                                                                                \
    }

static inline ilanes load_bytes(__global const uchar *p) { return CONVERT_INDEX(PASTE(vload, LANES)(0, p)); }

#if RULE_MASK
DEFINE_STAGING(stage_bytes, ilanes, uchar, LOAD_PLAIN, load_bytes, transpose_indices)
#define STAGE_BYTES(g, pairs, room, tile)                                                                    \
    do {                                                                                                     \
        const pair_steps steps_ = pair_steps_of(tile, (pairs)->row, (pairs)->column);                        \
        stage_bytes(&steps_, (pairs)->base, room);                                                           \
        (pairs)->staged = room;                                                                              \
    } while (0)
#endif
#if RULE_BIAS
DEFINE_STAGING(stage_bias, lanes, bias_t, LOAD_BIAS, LOAD_BIAS_LANES, transpose)
#define STAGE_BIAS(g, pairs, room, tile)                                                                     \
    do {                                                                                                     \
        const pair_steps steps_ = pair_steps_of(tile, (pairs)->row, (pairs)->column);                        \
        stage_bias(&steps_, (pairs)->base, room);                                                            \
        (pairs)->staged = room;                                                                              \
    } while (0)
#endif
