/*
 * Products of engine "cpu", in plain OpenCL C.
 *
 *       scores [INNER][OUTER]                  outputs [dim][OUTER]
 *       = inner[j][d] (a scalar, broadcast)    = inner[j][d] (broadcast)
 *         x outer^T[d][lanes], over d            x weights[j][lanes], over j
 *
 * Inner rows are read by scalars where they lie, whatever their stride; outer
 * rows are transposed into the lanes once a tile. Both products are one inner
 * loop: a strip of ROWS broadcast rows by VECTORS vectors stays in registers.
 */
#ifndef ROWS
#define ROWS                                                                                                 \
    8 /* rows of a strip: ROWS VECTORS accumulators, VECTORS operands and a broadcast fill the registers */
#endif

/* Inner rows of 16 bits are converted a tile at a time; others are read where they lie. */
#define CONVERTS_ROWS (IN_TYPE == TYPE_F16 || IN_TYPE == TYPE_BF16)
#if CONVERTS_ROWS
typedef const real source_number;
#define ROOM_FOR_ROWS (INNER * WIDEST_DIM)
#else
typedef __global const real source_number;
#define ROOM_FOR_ROWS 1
#endif

/* Inner rows at hand: dim d of row j at data[j stride + d]. */
typedef struct {
    source_number *data;
    long stride;
    int rows; /* of the tile: 0 .. INNER */
    int dims;
} inner_tile;

struct product_room {
    real at[ROOM_FOR_ROWS] __attribute__((aligned(sizeof(lanes)))); /* [INNER][WIDEST_DIM], converted */
    view kept;                                                      /* whose rows they are */
};

#define GROUP(g)                                                                                             \
    product_room group_room;                                                                                 \
    group_room.kept.data = 0;                                                                                \
    rows_ahead group_ahead = {0, 0, 0, 0};                                                                   \
    const group g = {(long)get_group_id(0), &group_room, &group_ahead}
#define END_GROUP(g)

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
    if (!same_rows(rows, &g->room->kept)) {
        convert_rows(rows, count, g->room->at);
        g->room->kept = *rows;
    }
    const inner_tile tile = {g->room->at, WIDEST_DIM, count, rows->dims};
#else
    const inner_tile tile = {rows->data, rows->stride, count, rows->dims};
#endif
    return tile;
}

/* ---- products ---- */

#define ENGINE_ROUNDS_WEIGHTS 0
#define ROUND_WEIGHT(x) (x)

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
    INLINED void NAME##_sums(const NAME##_operands *o, const bool careful, lanes sum[ROWS][WIDTH])           \
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

INLINED void multiply(lanes *to, const by_rows_operands *o, const lanes *keep, const how how,
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
        prefetch_ahead(g->ahead);
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
        prefetch_ahead(g->ahead);
        if (careful)
            multiply_carefully(output + d * VECTORS, &o, keep, how);
        else
            multiply_plainly(output + d * VECTORS, &o, keep, how);
    }
}

/* ---- sums over outer rows, added to inner rows in memory ---- */

#if BACKWARD_AT_ONCE
/* Vectors of dims that are summed at once; head-dim classes are made of whole ones. */
#define SUM_VECTORS (HEAD_DIM_CLASS < 2 * LANES ? 1 : 2)

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

INLINED void add_sums(const row_sums *to, const by_weights_operands *o, const int first, const int d,
                      const bool careful)
{
    lanes sum[ROWS][SUM_VECTORS];
    by_weights_sums(o, careful, sum);
    UNROLL_FOR (int r = 0; r < ROWS; r++)
        UNROLL_FOR (int v = 0; v < SUM_VECTORS; v++) {
            __global real *here = to->data + (first + r) * to->stride + d + v * LANES;
            if (first + r < to->rows && d + v * LANES < to->dims)
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
