/*
 * dQ and dQ' while they are summed in memory, unscaled and unrounded: what the
 * key tiles of a slice have added so far, in rows of SUM_STRIDE. A slice is
 * walked by one work-group, so its sums have one owner and one order.
 */
#define SUM_STRIDE(dims) (((dims) + 15) / 16 * 16)

/* Rows of one head in one slice, from query `first` of its sequence on. */
static inline row_sums query_sums(const arguments *a, __global real *parts, const int slice,
                                  const sequence *s, const int first)
{
    const long row = stat_index(a, slice, s->batch, s->h, s->first_query + first);
    const int dims = a->p->head_dim;
    const row_sums sums = {parts + row * SUM_STRIDE(dims), SUM_STRIDE(dims), s->queries - first, dims};
    return sums;
}

/* Adds what a tile of keys contributes to INNER queries from i0 on. */
static inline void add_to_queries(const arguments *a, const group *g, const gradient_tile *tile, const int i0,
                                  const bool careful, const weights *w)
{
    const row_sums dq = query_sums(a, a->dq_parts, tile->slice, &tile->s, i0);
#if TANGENTS
    const row_sums tdq = query_sums(a, a->tdq_parts, tile->slice, &tile->s, i0);
    add_to_inner_rows(g, &tdq, w->of[TDX], &tile->x_rows, careful);
#endif
    add_to_inner_rows(g, &dq, w->of[DX], &tile->x_rows, careful);
#if HAS_TK
    add_to_inner_rows(g, &tdq, w->of[DX], &tile->tx_rows, careful);
#endif
}
