/*
 * Engines for CPUs: a tile is one work-item's, and its outer rows lie in the
 * lanes of VECTORS vectors. No barriers, nothing is reduced across lanes.
 *
 *        lanes: outer rows (OUTER)              lanes: outer rows
 *       +-------------------------+            +-------------------------+
 *     j |  scores [INNER][OUTER]  |          d |  outputs [dim][OUTER]   |
 *       +-------------------------+            +-------------------------+
 *
 * Here are loops, results and what is staged. Products, and the rows they
 * hold, follow in a file of their own: cpu_products.cl for every CPU and type,
 * cpu_amx.cl for bf16 on AMX tiles.
 */
#ifndef BN
#define BN 64 /* inner rows a step; a multiple of 32 */
#endif

#define OUTER (LANES * VECTORS)
#define INNER BN
#define OUTER_SLOTS VECTORS
#define SCORES (INNER * VECTORS)
#define OUTPUTS(dim_class) ((dim_class)*VECTORS)
#define ENGINE_ATTRIBUTES __attribute__((reqd_work_group_size(1, 1, 1)))
#define ENGINE_SPLITS_PLAIN_TILES 1
#define BASE_BELOW 0
#define LAZY_RISE 5         /* weights are at most e^5; outputs are seldom rescaled */
#define UNROLL_LIST_FOR for /* products are calls */
#define WIDEST_DIM (HEAD_DIM_CLASS > HEAD_DIM_V_CLASS ? HEAD_DIM_CLASS : HEAD_DIM_V_CLASS)
#define NOT_INLINED static __attribute__((noinline))
#define INLINED static inline __attribute__((always_inline)) /* where constant arguments must take effect */

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

/* Rows of a tensor over pairs that the next step will stage: a few are prefetched at each strip of a product, because
 * all at once they would wait for each other. Hardware does not see what comes: they lie far apart. */
typedef struct {
    __global const uchar *row;
    long step; /* bytes between rows */
    int rows, bytes;
} rows_ahead;

#ifdef __clang__
#define PREFETCH(p) __builtin_prefetch(p)
#else
#define PREFETCH(p)
#endif
#define CACHE_LINE 64
#define ROWS_A_STRIP 3

static inline void prefetch_ahead(rows_ahead *ahead)
{
    for (int n = 0; n < ROWS_A_STRIP && ahead->rows > 0; n++, ahead->rows--, ahead->row += ahead->step)
        for (int at = 0; at < ahead->bytes; at += CACHE_LINE)
            PREFETCH(ahead->row + at);
}

/* What products keep from one call to the next: the file of products says. */
typedef struct product_room product_room;

typedef long tile_number;

typedef struct {
    tile_number tile; /* which tile of the launch this is */
    product_room *room;
    rows_ahead *ahead;
} group;

#define FOR_EACH_SLOT(slot) UNROLL_FOR (int slot = 0; slot < VECTORS; slot++)
#define FOR_EACH_SCORE(g, e, slot, inner)                                                                    \
    for (int inner = 0; inner < INNER; inner++)                                                              \
        UNROLL_FOR (int slot = 0, e = inner * VECTORS; slot < VECTORS; slot++, e++)
#define FOR_EACH_OUTPUT(g, e, slot, d, dim_class)                                                            \
    for (int d = 0; d < (dim_class); d++)                                                                    \
        UNROLL_FOR (int slot = 0, e = d * VECTORS; slot < VECTORS; slot++, e++)

static inline ilanes outer_row(const group *g, const int slot) { return LANE_NUMBERS + slot * LANES; }
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

typedef int_lanes byte_room[SCORES / 4];
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

/* True if neighbours in memory are inner rows: then a block of both kinds is read and transposed. */
static inline bool lies_by_rows(const pair_steps *s) { return s->inner_step == 1 && s->outer_step > 1; }

/* What the next step will stage of a tensor of elements of `size` bytes. */
static inline void look_ahead(const group *g, const pair_steps *s, __global const uchar *from, const int size)
{
    const int next = s->inner_first + INNER;
    rows_ahead *ahead = g->ahead;
    if (lies_by_rows(s)) {
        ahead->row = from + (outer_at(s, 0) + next) * size;
        ahead->step = s->outer_step * size;
        ahead->rows = OUTER;
        ahead->bytes = INNER * size;
    } else if (s->outer_step == 1) {
        ahead->row = from + (next * s->inner_step + outer_at(s, 0)) * size;
        ahead->step = s->inner_step * size;
        ahead->rows = INNER;
        ahead->bytes = OUTER * size;
    }
}

/* The bias, a vector for each inner row. */
#if RULE_BIAS
static inline lanes bias_row(const pair_steps *s, __global const bias_t *from, const int i, const int j)
{
    __global const bias_t *row = from + inner_at(s, j);
    if (s->outer_step == 0)
        return (lanes)(LOAD_BIAS(row));
    if (s->outer_step == 1 && outer_inside(s, i, LANES)) {
        return LOAD_BIAS_LANES(row + outer_at(s, i));
    }
    lanes x;
    for (int lane = 0; lane < LANES; lane++)
        x[lane] = LOAD_BIAS(row + outer_at(s, i + lane));
    return x;
}

/* A block of LANES inner rows from j on. */
static inline void stage_bias_block(const pair_steps *s, __global const bias_t *from,
                                    __global const bias_t *const rows[LANES], const int i, const int j,
                                    lanes *to)
{
    lanes block[LANES];
    if (lies_by_rows(s) && inner_inside(s, j, LANES)) {
        UNROLL_FOR (int lane = 0; lane < LANES; lane++)
            block[lane] = LOAD_BIAS_LANES(rows[lane] + j);
        transpose(block);
    } else
        for (int n = 0; n < LANES; n++)
            block[n] = bias_row(s, from, i, j + n);
    UNROLL_FOR (int n = 0; n < LANES; n++)
        to[(j + n) * VECTORS] = block[n];
}

NOT_INLINED void stage_bias(const pair_steps *s, __global const bias_t *from, lanes *to)
{
    for (int slot = 0; slot < VECTORS; slot++) {
        __global const bias_t *rows[LANES];
        for (int lane = 0; lane < LANES; lane++)
            rows[lane] = from + outer_at(s, slot * LANES + lane) + s->inner_first;
        for (int j = 0; j < INNER; j += LANES)
            stage_bias_block(s, from, rows, slot * LANES, j, to + slot);
    }
}

#define STAGE_BIAS(g, pairs, room, tile)                                                                     \
    do {                                                                                                     \
        const pair_steps steps_ = pair_steps_of(tile, (pairs)->row, (pairs)->column);                        \
        look_ahead(g, &steps_, (__global const uchar *)(pairs)->base, sizeof(bias_t));                       \
        stage_bias(&steps_, (pairs)->base, room);                                                            \
        (pairs)->staged = room;                                                                              \
    } while (0)
#endif

/* The boolean mask, a vector of words for four inner rows each. */
#if RULE_MASK
#define ROWS_A_BLOCK (4 * LANES) /* inner rows that a block of words holds */

static inline int_lanes load_bytes(__global const uchar *p)
{
    return CONVERT_TO(int)(PASTE(vload, LANES)(0, p));
}

static inline int_lanes mask_words(const pair_steps *s, __global const uchar *from, const int i, const int j)
{
    const long at[4] = {inner_at(s, j), inner_at(s, j + 1), inner_at(s, j + 2), inner_at(s, j + 3)};
    if (s->outer_step == 1 && outer_inside(s, i, LANES)) {
        __global const uchar *rows = from + outer_at(s, i);
        return load_bytes(rows + at[0]) | load_bytes(rows + at[1]) << 8 | load_bytes(rows + at[2]) << 16 |
               load_bytes(rows + at[3]) << 24;
    }
    int_lanes words;
    for (int lane = 0; lane < LANES; lane++) {
        __global const uchar *row = from + outer_at(s, i + lane);
        const int word = row[at[0]] | row[at[1]] << 8 | row[at[2]] << 16 | row[at[3]] << 24;
        if (s->outer_step == 0)
            return (int_lanes)(word);
        words[lane] = word;
    }
    return words;
}

/* The words of LANES outer rows from i on, for inner rows from j on. */
static inline void stage_mask_block(const pair_steps *s, __global const uchar *from, const int i, const int j,
                                    int_lanes *to)
{
    int_lanes block[LANES];
    if (lies_by_rows(s) && inner_inside(s, j, ROWS_A_BLOCK)) {
        UNROLL_FOR (int lane = 0; lane < LANES; lane++) {
            __global const uchar *row = from + outer_at(s, i + lane) + s->inner_first + j;
            block[lane] = PASTE(vload, LANES)(0, (__global const int *)row); /* CPUs load from any address */
        }
        transpose_words(block);
    } else
        for (int n = 0; n < LANES && j + 4 * n < INNER; n++)
            block[n] = mask_words(s, from, i, j + 4 * n);
    for (int n = 0; n < LANES && j + 4 * n < INNER; n++)
        to[(j / 4 + n) * VECTORS] = block[n];
}

NOT_INLINED void stage_mask(const pair_steps *s, __global const uchar *from, int_lanes *to)
{
    for (int j = 0; j < INNER; j += ROWS_A_BLOCK)
        for (int slot = 0; slot < VECTORS; slot++)
            stage_mask_block(s, from, slot * LANES, j, to + slot);
}

#define STAGE_BYTES(g, pairs, room, tile)                                                                    \
    do {                                                                                                     \
        const pair_steps steps_ = pair_steps_of(tile, (pairs)->row, (pairs)->column);                        \
        look_ahead(g, &steps_, (pairs)->base, 1);                                                            \
        stage_mask(&steps_, (pairs)->base, room);                                                            \
        (pairs)->staged = room;                                                                              \
    } while (0)
#endif
