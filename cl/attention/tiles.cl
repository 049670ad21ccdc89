/*
 * What forward and backward share: where a tile lies, views of the tensors'
 * rows, and small loops over what an engine holds.
 */

#ifndef TANGENTS
#define TANGENTS 0
#endif
#ifndef HAS_TQ
#define HAS_TQ 0
#endif
#ifndef HAS_TK
#define HAS_TK 0
#endif
#ifndef HAS_TV
#define HAS_TV 0
#endif
#ifndef HAS_TBIAS
#define HAS_TBIAS 0
#endif
#ifndef HAS_TDO
#define HAS_TDO 0
#endif
/* S' is not 0 */
#define HAS_TS (HAS_TQ || HAS_TK || HAS_TBIAS)
/* OpenCL C has no arrays of length 0. */
#define TANGENT_ARRAY (TANGENTS > 0 ? TANGENTS : 1)

/* Launch tile -> batch element, head and the first row of an outer tile; tiles of one head are neighbours. */
typedef struct {
    int b, h;
    int first;
} place;

static inline place place_of(const long tile, const int rows, const int heads)
{
    const long tiles = ((long)rows + OUTER - 1) / OUTER;
    const place at = {(int)(tile / tiles / heads), (int)(tile / tiles % heads), (int)(tile % tiles) * OUTER};
    return at;
}

/* Rows from `first` on of a [B,H,S,dims] tensor; those from `rows` on read as 0. */
static inline view rows_view(const arguments *a, __global const in_t *tensor, const int slot, const int t,
                             const int b, const int h, const int first, const int rows, const int dims)
{
    const int tangent = a->tangent_first + t;
    const view v = {tensor + row_offset(a, slot, tangent, b, h, first), a->p->strides[slot].row, rows - first,
                    dims};
    return v;
}

/* A view of a query-side (key-side) tensor by its argument name, for sequence s. */
#define QUERY_ROWS(a, s, name, SLOT, t, first, dims)                                                         \
    rows_view(a, (a)->name, SLOT, t, (s)->b, (s)->h, first, (s)->queries, dims)
#define KEY_ROWS(a, s, name, SLOT, t, first, dims)                                                           \
    rows_view(a, (a)->name, SLOT, t, (s)->b, (s)->h_kv, first, (s)->keys, dims)

/* Rows of a [B,H,S,dims] result, to be written; those from `rows` on are left alone. */
typedef struct {
    __global out_t *data;
    long stride;
    int rows;
    int dims;
} target;

static inline target rows_target(const arguments *a, __global out_t *tensor, const int slot, const int t,
                                 const int b, const int h, const int first, const int rows, const int dims)
{
    const target to = {tensor + row_offset(a, slot, t, b, h, first), a->p->strides[slot].row, rows - first, dims};
    return to;
}

/* Writes factor * output. */
static inline void store_tile(const group *g, const target *to, const lanes *output, const int dim_class,
                              const real factor)
{
    FOR_EACH_OUTPUT (g, e, slot, d, dim_class) {
        const ilanes row = outer_row(g, slot);
        scatter_out(to->data, TO_LLANES(row) * to->stride + d, factor * output[e], (row < to->rows) & (d < to->dims));
    }
}

#define CLEAR(array, length)                                                                                 \
    for (int n_ = 0; n_ < (length); n_++)                                                                    \
    (array)[n_] = 0

/*
 * Products as lists, so that a program holds one loop over them and an engine
 * one copy of its inner loop; an engine with registers to fill unrolls it.
 */

/* sum += outer inner^T */
typedef struct {
    lanes *sum; /* SCORES */
    const held *outer;
    const view *inner;
} score_product;

static inline void add_score_products(const group *g, const score_product *products, const int count)
{
    UNROLL_FOR (int n = 0; n < count; n++)
        multiply_scores(g, products[n].sum, products[n].outer, products[n].inner);
}

/* output = keep output + weights rows */
typedef struct {
    lanes *output; /* OUTPUTS(dim_class) */
    int dim_class;
    const lanes *keep;    /* OUTER_SLOTS, or 0 for 1 */
    const lanes *weights; /* SCORES */
    const view *rows;
} value_product;

static inline void add_value_products(const group *g, const value_product *products, const int count,
                                      const bool careful)
{
    UNROLL_FOR (int n = 0; n < count; n++) {
        const operand weights = hand_over(g, products[n].weights);
        multiply_values(g, products[n].output, products[n].dim_class, products[n].keep, weights, products[n].rows,
                        careful);
    }
}

#define IS_FINITE(x) (fabs(x) <= REAL_MAX)

static inline bool finite_outputs(const lanes *output, const int length)
{
    bool finite = true;
    for (int e = 0; e < length; e++)
        finite = finite && IS_FINITE(output[e]);
    return finite;
}

/*
 * A weight where a pair attends, else 0. For a careful product, pairs that do
 * not attend become MARK, and a weight of -0 of a pair that does becomes +0.
 */
static inline lanes masked(const lanes weight, const ilanes attends, const bool careful)
{
    if (careful)
        return attends ? weight + 0 : TO_LANES(MARK);
    return attends ? weight : TO_LANES(0);
}

/*
 * Runs the statement once with `careful` false, and again with it true if `finite`, evaluated after it, does not
 * hold: a NaN or an infinity may stem from a pair that does not attend, as 0 x NaN. The same for a whole group.
 */
#define TWICE_IF_NOT_FINITE(careful, finite)                                                                 \
    for (int attempt_ = 0, again_ = 1; again_; again_ = attempt_ == 0 && !(finite), attempt_++)              \
        for (int once_ = 1, careful = attempt_; once_; once_ = 0)
