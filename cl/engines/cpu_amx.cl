/*
 * Products of engine "cpu_amx": bf16 on the tile registers of x86 CPUs that
 * have AMX, through the compiler's builtins. A register has 16 rows of 64
 * bytes, and one instruction does
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
 * All three are one loop, multiply_tiles. Tiles are never read or written
 * beyond what they are of: where rows or dims do not fill one, a copy padded
 * with zeros takes their place. bf16 in, sums in float.
 */
#define STEP 32                                     /* numbers of a sum that an instruction takes */
#define STEPS(length) (((length) + STEP - 1) / STEP)
#define TILE_ROWS 16
#define TILE_BYTES 1024
#define VECTOR_BYTES 64
#define MOST_STEPS STEPS(WIDEST_DIM)
#define WEIGHT_STEPS (INNER / STEP)

/* ---- the instructions ---- */

typedef ulong address; /* private and global memory alike */

/* EMULATES_TILES is for tests on machines without AMX: the same in plain OpenCL C. */
#ifndef EMULATES_TILES
#define EMULATES_TILES 0
#endif

#if EMULATES_TILES
#define TILE_FUNCTION static __attribute__((noinline))
typedef struct {
    uint at[TILE_ROWS][16];
} tile_register;
#define TILE_REGISTERS tile_register tiles_[8]
#define TILE_ZERO(t) tile_zero(&tiles_[t])
#define TILE_LOAD(t, from, stride) tile_load(&tiles_[t], from, stride)
#define TILE_STORE(t, to, stride) tile_store(&tiles_[t], to, stride)
#define TILE_MULTIPLY_ADD(c, a, b) tile_multiply_add(&tiles_[c], &tiles_[a], &tiles_[b])
#define TILES_CONFIGURE()
#define TILES_RELEASE()

static inline void tile_zero(tile_register *t)
{
    for (int r = 0; r < TILE_ROWS; r++)
        for (int n = 0; n < 16; n++)
            t->at[r][n] = 0;
}

static inline void tile_load(tile_register *t, const address from, const long stride)
{
    for (int r = 0; r < TILE_ROWS; r++) {
        __global const ushort *row = (__global const ushort *)(from + r * stride);
        for (int n = 0; n < 16; n++)
            t->at[r][n] = row[2 * n] | (uint)row[2 * n + 1] << 16;
    }
}

static inline void tile_store(const tile_register *t, const address to, const long stride)
{
    for (int r = 0; r < TILE_ROWS; r++)
        for (int n = 0; n < 16; n++)
            ((__global uint *)(to + r * stride))[n] = t->at[r][n];
}

static inline void tile_multiply_add(tile_register *c, const tile_register *a, const tile_register *b)
{
    for (int m = 0; m < TILE_ROWS; m++)
        for (int k = 0; k < 16; k++)
            for (int n = 0; n < 16; n++) {
                const uint x = a->at[m][k], y = b->at[k][n];
                float sum = as_float(c->at[m][n]);
                sum = fma(as_float(x << 16), as_float(y << 16), sum);
                sum = fma(as_float(x & 0xffff0000u), as_float(y & 0xffff0000u), sum);
                c->at[m][n] = as_uint(sum);
            }
}

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
#else
#define TILE_FUNCTION                                                                                        \
    static __attribute__((noinline,                                                                          \
                          target("amx-bf16,amx-tile,avx512bf16,avx512f,avx512bw,avx512dq,avx512vl")))
#define TILE_REGISTERS
#define TILE_ZERO(t) __builtin_ia32_tilezero(t)
#define TILE_LOAD(t, from, stride) __builtin_ia32_tileloadd64(t, (const void *)(from), (size_t)(stride))
#define TILE_STORE(t, to, stride) __builtin_ia32_tilestored64(t, (void *)(to), (size_t)(stride))
#define TILE_MULTIPLY_ADD(c, a, b) __builtin_ia32_tdpbf16ps(c, a, b)
#define TILES_CONFIGURE() configure_tiles()
#define TILES_RELEASE() release_tiles()

/* All eight registers of full size, for the thread that runs the work-item. */
TILE_FUNCTION void configure_tiles(void)
{
    uchar layout[64]; /* the palette, 15 reserved bytes, bytes of a row (ushort), 16 reserved bytes, rows */
    for (int i = 0; i < 64; i++)
        layout[i] = 0;
    layout[0] = 1;
    for (int t = 0; t < 8; t++) {
        layout[16 + 2 * t] = VECTOR_BYTES;
        layout[48 + t] = TILE_ROWS;
    }
    __builtin_ia32_tile_loadconfig(layout);
}

TILE_FUNCTION void release_tiles(void) { __builtin_ia32_tilerelease(); }

/* The bf16 of a, then those of b. */
#define ROW_OF_VECTORS(a, b)                                                                                 \
    __builtin_ia32_cvtne2ps2bf16_512(__builtin_astype(b, float_vector), __builtin_astype(a, float_vector))
typedef float float_vector __attribute__((vector_size(VECTOR_BYTES)));
typedef ushort ushort_vector __attribute__((vector_size(VECTOR_BYTES)));
#define row_of_vectors(a, b) __builtin_astype(ROW_OF_VECTORS(a, b), ulanes)

/* The bf16 of a in the lower halves, those of b in the upper ones. */
#define pair_of_rows(a, b) __builtin_astype(alternate(__builtin_astype(ROW_OF_VECTORS(a, b), ushort_vector)), ulanes)
#define alternate(x)                                                                                         \
    __builtin_shufflevector(x, x, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10,  \
                            26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#endif

/* ---- the loop ---- */

/* C[m][n] = or += sum_k A[m][k] B[k][n], in blocks of a register. */
typedef struct {
    address a, b, c;
    long a_row, a_step;       /* bytes from a row of A to the next, and from STEP numbers of it to the next */
    long b_column;            /* bytes from a block of columns of B to the next; its steps are neighbours */
    long c_row;               /* bytes from a row of C to the next; blocks of columns are neighbours */
    int rows, columns, steps; /* blocks along m, n and k */
    bool adds;
} tile_product;

/*
 * ROWS blocks of rows and COUNT steps of A stay in registers 4 .. 7, and B
 * streams past them: it is the smaller one and stays in the nearest cache. A
 * sum takes its steps one after the other: the instruction runs at full rate
 * only along one register.
 */
#define DEFINE_STRIP(NAME, ROWS, COUNT)                                                                      \
    TILE_FUNCTION void NAME(const tile_product *p, const address a, address b, address c, const bool adds)   \
    {                                                                                                        \
        TILE_REGISTERS;                                                                                      \
        const long a_row = p->a_row, c_row = p->c_row;                                                       \
        const address third = a + (ROWS > 1 ? TILE_ROWS * a_row : 2 * p->a_step);                            \
        const address c1 = c + TILE_ROWS * c_row;                                                            \
        TILE_LOAD(4, a, a_row);                                                                              \
        if (COUNT > 1)                                                                                       \
            TILE_LOAD(5, a + p->a_step, a_row);                                                              \
        if (COUNT > 2 || ROWS > 1)                                                                           \
            TILE_LOAD(6, third, a_row);                                                                      \
        if (COUNT > 3 || (COUNT > 1 && ROWS > 1))                                                            \
            TILE_LOAD(7, third + p->a_step, a_row);                                                          \
        for (long n = 0; n < p->columns * VECTOR_BYTES; n += VECTOR_BYTES, b += p->b_column) {               \
            START_SUM(0, c + n);                                                                             \
            TILE_LOAD(2, b, VECTOR_BYTES);                                                                   \
            if (COUNT > 1)                                                                                   \
                TILE_LOAD(3, b + TILE_BYTES, VECTOR_BYTES);                                                  \
            TILE_MULTIPLY_ADD(0, 4, 2);                                                                      \
            if (COUNT > 1)                                                                                   \
                TILE_MULTIPLY_ADD(0, 5, 3);                                                                  \
            if (ROWS > 1) {                                                                                  \
                START_SUM(1, c1 + n);                                                                        \
                TILE_MULTIPLY_ADD(1, 6, 2);                                                                  \
                if (COUNT > 1)                                                                               \
                    TILE_MULTIPLY_ADD(1, 7, 3);                                                              \
                TILE_STORE(1, c1 + n, c_row);                                                                \
            }                                                                                                \
            if (COUNT > 2) {                                                                                 \
                TILE_LOAD(2, b + 2 * TILE_BYTES, VECTOR_BYTES);                                              \
                TILE_MULTIPLY_ADD(0, 6, 2);                                                                  \
            }                                                                                                \
            if (COUNT > 3) {                                                                                 \
                TILE_LOAD(3, b + 3 * TILE_BYTES, VECTOR_BYTES);                                              \
                TILE_MULTIPLY_ADD(0, 7, 3);                                                                  \
            }                                                                                                \
            TILE_STORE(0, c + n, c_row);                                                                     \
        }                                                                                                    \
    }
#define START_SUM(t, from)                                                                                   \
    if (adds)                                                                                                \
        TILE_LOAD(t, from, c_row);                                                                           \
    else                                                                                                     \
        TILE_ZERO(t)
DEFINE_STRIP(multiply_2_by_2, 2, 2)
DEFINE_STRIP(multiply_2_by_1, 2, 1)
DEFINE_STRIP(multiply_1_by_4, 1, 4)
DEFINE_STRIP(multiply_1_by_3, 1, 3)
DEFINE_STRIP(multiply_1_by_2, 1, 2)
DEFINE_STRIP(multiply_1_by_1, 1, 1)

NOT_INLINED void multiply_tiles(const tile_product *p)
{
    for (int k = 0; k < p->steps; k += 4) {
        const int count = min(p->steps - k, 4);
        const bool adds = p->adds || k > 0;
        const address b = p->b + k * TILE_BYTES;
        for (int m = 0, rows; m < p->rows; m += rows) {
            const address a = p->a + m * TILE_ROWS * p->a_row + k * p->a_step;
            const address c = p->c + m * TILE_ROWS * p->c_row;
            rows = count <= 2 && m + 1 < p->rows ? 2 : 1;
            if (count == 4)
                multiply_1_by_4(p, a, b, c, adds);
            else if (count == 3)
                multiply_1_by_3(p, a, b, c, adds);
            else if (count == 2 && rows == 2)
                multiply_2_by_2(p, a, b, c, adds);
            else if (count == 2)
                multiply_1_by_2(p, a, b, c, adds);
            else if (rows == 2)
                multiply_2_by_1(p, a, b, c, adds);
            else
                multiply_1_by_1(p, a, b, c, adds);
        }
    }
}

/* ---- what a work-item keeps between products ---- */

struct product_room {
    view copied, transposed;                          /* the rows that are in the next two */
    ulanes rows[INNER * MOST_STEPS];                  /* [INNER][MOST_STEPS] vectors of 32 bf16 */
    ulanes columns[WEIGHT_STEPS * MOST_STEPS * STEP]; /* [WEIGHT_STEPS][dim], likewise */
    const lanes *paired, *rounded;                    /* the weights that are in the next two */
    ulanes pairs[SCORES / 2];                         /* blocks of B, [VECTORS][WEIGHT_STEPS] */
#if BACKWARD_AT_ONCE
    ulanes weight_rows[SCORES / 2]; /* [INNER][OUTER] */
    lanes sums[TILE_ROWS * HEAD_DIM_CLASS / LANES];
#endif
};

/* Weights are new after a product of scores. */
static inline void forget_weights(product_room *room) { room->paired = room->rounded = 0; }

#define GROUP(g)                                                                                             \
    product_room group_room;                                                                                 \
    group_room.copied.data = group_room.transposed.data = 0;                                                 \
    forget_weights(&group_room);                                                                             \
    TILES_CONFIGURE();                                                                                       \
    const group g = {(long)get_group_id(0), &group_room}
#define END_GROUP(g) TILES_RELEASE()

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
    ulanes x[VECTORS * MOST_STEPS * TILE_ROWS];
} held;

NOT_INLINED void hold_vector(const view *rows, const int first, ulanes *to)
{
    for (int k = 0; k < STEPS(rows->dims); k++) {
        int_lanes block[LANES];
        for (int i = 0; i < LANES; i++)
            block[i] = first + i < rows->rows
                           ? as_int16(load_step(rows->data + (first + i) * rows->stride, k * STEP, rows->dims))
                           : (int_lanes)(0);
        transpose_words(block);
        for (int r = 0; r < TILE_ROWS; r++)
            to[k * TILE_ROWS + r] = as_uint16(block[r]);
    }
}

static inline void hold(const group *g, const view outer, held *to)
{
    for (int slot = 0; slot < VECTORS; slot++)
        hold_vector(&outer, slot * LANES, to->x + slot * MOST_STEPS * TILE_ROWS);
}

/* ---- inner rows ---- */

static inline int rows_at_hand(const view *rows) { return clamp(rows->rows, 0, INNER); }

NOT_INLINED void copy_rows(const view *rows, ulanes *to)
{
    const int count = rows_at_hand(rows);
    for (int j = 0; j < INNER; j++)
        for (int k = 0; k < STEPS(rows->dims); k++)
            to[j * MOST_STEPS + k] = j < count
                                         ? load_step(rows->data + j * rows->stride, k * STEP, rows->dims)
                                         : (ulanes)(0);
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

/* scores[i][j] = or += sum_d outer[i][d] inner[j][d] */
static inline void multiply_scores(const group *g, lanes *scores, const held *outer, const view *inner,
                                   const bool adds)
{
    tile_product p = {.a = (address)inner->data,
                      .a_row = inner->stride * 2,
                      .a_step = VECTOR_BYTES,
                      .b = (address)outer->x,
                      .b_column = MOST_STEPS * TILE_BYTES,
                      .c = (address)scores,
                      .c_row = VECTORS * VECTOR_BYTES,
                      .rows = INNER / TILE_ROWS,
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
    multiply_tiles(&p);
    forget_weights(g->room);
}

typedef struct {
    const lanes *weights;
} operand;

/* Weights r and r + 16 of a step in pairs. */
TILE_FUNCTION void pair_weights(const lanes *weights, ulanes *to)
{
    for (int k = 0; k < WEIGHT_STEPS; k++)
        for (int r = 0; r < TILE_ROWS; r++)
            UNROLL_FOR (int slot = 0; slot < VECTORS; slot++) {
                const lanes a = weights[(k * STEP + r) * VECTORS + slot];
                const lanes b = weights[(k * STEP + r + TILE_ROWS) * VECTORS + slot];
                to[(slot * WEIGHT_STEPS + k) * TILE_ROWS + r] = pair_of_rows(a, b);
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
    const tile_product p = {.a = (address)g->room->columns,
                            .a_row = VECTOR_BYTES,
                            .a_step = MOST_STEPS * STEP * VECTOR_BYTES,
                            .b = (address)g->room->pairs,
                            .b_column = WEIGHT_STEPS * TILE_BYTES,
                            .c = (address)output,
                            .c_row = VECTORS * VECTOR_BYTES,
                            .rows = (inner->dims + TILE_ROWS - 1) / TILE_ROWS,
                            .columns = VECTORS,
                            .steps = STEPS(rows_at_hand(inner)),
                            .adds = true};
    multiply_tiles(&p);
}

/* ---- sums over outer rows, added to inner rows in memory ---- */

#if BACKWARD_AT_ONCE
#define ROW_STEPS (OUTER / STEP)
#define DIM_BLOCKS (HEAD_DIM_CLASS / LANES)

/* Outer rows 2r and 2r + 1 in pairs, a dim in each lane: [DIM_BLOCKS][ROW_STEPS] blocks of B. */
typedef struct {
    ulanes x[DIM_BLOCKS * ROW_STEPS * TILE_ROWS];
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
            to[n * ROW_STEPS * TILE_ROWS + r] = as_uint16(pair[0]) >> 16 | as_uint16(pair[1]);
        }
}

static inline void hold_rows(const group *g, const view outer, held_rows *to) { hold_row_pairs(&outer, to->x); }

/* Dims n LANES and on of outer row i. */
static inline lanes held_row(const held_rows *rows, const int i, const int n)
{
    const ulanes pair = rows->x[n * ROW_STEPS * TILE_ROWS + i / 2];
    return as_float16(i % 2 ? pair & 0xffff0000u : pair << 16);
}

/* Weights of an inner row one after the other. */
TILE_FUNCTION void round_weights(const lanes *weights, ulanes *to)
{
    for (int n = 0; n < SCORES / 2; n++)
        to[n] = row_of_vectors(weights[2 * n], weights[2 * n + 1]);
}

NOT_INLINED void add_rows_carefully(const row_sums *to, const lanes *weights, const held_rows *outer)
{
    for (int j = 0; j < min(INNER, to->rows); j++)
        for (int n = 0; n < to->stride / LANES; n++) {
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
static inline void add_last_rows(const group *g, const row_sums *to, const int first, tile_product p)
{
    lanes *sums = g->room->sums;
    p.a += first * p.a_row;
    p.c = (address)sums;
    p.rows = 1;
    p.adds = false;
    multiply_tiles(&p);
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
    const tile_product p = {.a = (address)g->room->weight_rows,
                            .a_row = OUTER * 2,
                            .a_step = VECTOR_BYTES,
                            .b = (address)outer->x,
                            .b_column = ROW_STEPS * TILE_BYTES,
                            .c = (address)to->data,
                            .c_row = to->stride * 4,
                            .rows = count / TILE_ROWS,
                            .columns = (int)(to->stride / LANES),
                            .steps = ROW_STEPS,
                            .adds = true};
    multiply_tiles(&p);
    if (count % TILE_ROWS)
        add_last_rows(g, to, count / TILE_ROWS * TILE_ROWS, p);
}
#endif
