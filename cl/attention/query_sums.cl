/*
 * dQ and dQ' while they are summed in memory, unscaled and unrounded: what the
 * key tiles of a slice have added so far. A slice is walked by one work-group,
 * so its sums have one owner and one order. They lie in the workspace, or in
 * the gradient itself where it can hold them: one slice, rows of `real` in
 * whole multiples of 16.
 */
#define SUM_DIMS(dims) (((dims) + 15) / 16 * 16)

/* A gradient and where its sums lie. */
typedef struct {
    __global real *parts; /* [slices,B,Hq,M,SUM_DIMS]; NULL: in the gradient */
    __global out_t *gradient;
    int slot, tangent;
} query_gradient;

static inline query_gradient dq_of(const arguments *a)
{
    const query_gradient dq = {a->dq_parts, a->dq, SLOT_DQ, 0};
    return dq;
}
static inline query_gradient tdq_of(const arguments *a)
{
    const query_gradient tdq = {a->tdq_parts, a->tdq, SLOT_TDQ, a->tangent_first};
    return tdq;
}

/* Rows from row i of memory on of one head in one slice. */
static inline row_sums sums_at(const arguments *a, const query_gradient *of, const int slice, const int b,
                               const int h, const int i, const int rows)
{
    const int dims = SUM_DIMS(a->p->head_dim);
    row_sums sums = {of->parts + stat_index(a, slice, b, h, i) * dims, dims, rows, dims};
#if OUT_TYPE == IN_TYPE && (IN_TYPE == TYPE_F32 || IN_TYPE == TYPE_F64)
    if (!of->parts) {
        sums.data = of->gradient + row_offset(a, of->slot, of->tangent, b, h, i);
        sums.stride = a->p->strides[of->slot].row;
    }
#endif
    return sums;
}

/* The same from query `first` of a sequence on. */
static inline row_sums query_sums(const arguments *a, const query_gradient of, const int slice,
                                  const sequence *s, const int first)
{
    return sums_at(a, &of, slice, s->batch, s->h, s->first_query + first, s->queries - first);
}

/* Adds what a tile of keys contributes to INNER queries from i0 on. */
static inline void add_to_queries(const arguments *a, const group *g, const gradient_tile *tile, const int i0,
                                  const bool careful, const weights *w)
{
    const row_sums dq = query_sums(a, dq_of(a), tile->slice, &tile->s, i0);
#if TANGENTS
    const row_sums tdq = query_sums(a, tdq_of(a), tile->slice, &tile->s, i0);
    add_to_inner_rows(g, &tdq, w->of[TDX], &tile->x_rows, careful);
#endif
    add_to_inner_rows(g, &dq, w->of[DX], &tile->x_rows, careful);
#if HAS_TK
    add_to_inner_rows(g, &tdq, w->of[DX], &tile->tx_rows, careful);
#endif
}
