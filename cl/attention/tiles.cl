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

#define CLEAR(array, length)                                                                                 \
    for (int n_ = 0; n_ < (length); n_++)                                                                    \
    (array)[n_] = 0

#define IS_FINITE(x) (fabs(x) <= REAL_MAX)

/*
 * Weights for a careful product: pairs that do not attend become MARK, and a
 * weight of -0 of a pair that does becomes +0.
 */
static inline lanes marked(const lanes weight, const ilanes attends)
{
    return attends ? weight + 0 : TO_LANES(MARK);
}
