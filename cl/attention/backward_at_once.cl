/*
 * All gradients in one pass, for engines that can add to inner rows: a
 * work-group walks over key tiles and all their queries, keeps dK and dV and
 * adds to dQ in memory. 5 products where backward.cl needs 7 (15 and 21 with a
 * tangent). One work-group a key/value head, or a slice of its key tiles, which a
 * last kernel then adds up. No atomics: the sums have one order.
 */

/* What one work-group owns. */
typedef struct {
    int b, h_kv, slice;
    int first, last; /* key tiles, [first, last) */
} slice_place;

static inline slice_place slice_place_of(const arguments *a, const long tile)
{
    __global const struct attention_params *p = a->p;
    slice_place at;
    at.slice = (int)(tile % p->slices);
    at.h_kv = (int)(tile / p->slices % p->heads_kv);
    at.b = (int)(tile / p->slices / p->heads_kv);
    const sequence s = sequence_of(a, at.b, at.h_kv * p->heads_per_kv, true);
    const int keys = a->cu_seqlens_k ? s.keys : p->keys;
    const int tiles = (keys + OUTER - 1) / OUTER, each = (tiles + p->slices - 1) / p->slices;
    at.first = at.slice * each;
    at.last = min(at.first + each, tiles);
    return at;
}

static inline void clear_sums(const row_sums *sums)
{
    for (int i = 0; i < sums->rows; i++)
        for (int d = 0; d < sums->dims; d++)
            sums->data[i * sums->stride + d] = 0;
}

static inline void clear_query_sums(const arguments *a, const slice_place *at)
{
    const int heads = a->p->heads_per_kv;
    for (int h = at->h_kv * heads; h < (at->h_kv + 1) * heads; h++) {
        const sequence s = sequence_of(a, at->b, h, false);
        const row_sums dq = query_sums(a, dq_of(a), at->slice, &s, 0);
        clear_sums(&dq);
#if TANGENTS
        const row_sums tdq = query_sums(a, tdq_of(a), at->slice, &s, 0);
        clear_sums(&tdq);
#endif
    }
}

static inline bool sums_finite(const row_sums *sums)
{
    int infinite = 0;
    for (int i = 0; i < sums->rows; i++)
        for (int d = 0; d < sums->dims; d++)
            infinite |= !(fabs(sums->data[i * sums->stride + d]) <= REAL_MAX);
    return !infinite;
}

static inline bool query_sums_finite(const arguments *a, const slice_place *at)
{
    bool finite = true;
    const int heads = a->p->heads_per_kv;
    for (int h = at->h_kv * heads; h < (at->h_kv + 1) * heads && finite; h++) {
        const sequence s = sequence_of(a, at->b, h, false);
        const row_sums dq = query_sums(a, dq_of(a), at->slice, &s, 0);
        finite = sums_finite(&dq);
#if TANGENTS
        const row_sums tdq = query_sums(a, tdq_of(a), at->slice, &s, 0);
        finite = finite && sums_finite(&tdq);
#endif
    }
    return finite;
}

/* Walks over the slice's key tiles; false if something not finite came out. */
static inline bool walk(const arguments *a, const group *g, const slice_place *at, const bool careful)
{
    bool finite = true;
    clear_query_sums(a, at);
    for (int n = at->first; n < at->last; n++) {
        gradient_tile tile;
        tile.slice = at->slice;
        take_rows(a, g, true, at->b, at->h_kv * a->p->heads_per_kv, n * OUTER, &tile);
        tile.s.h_kv = at->h_kv; /* also where there are no query heads to tell it by */
        const place keys = {at->b, at->h_kv, n * OUTER};
        key_gradients sum;
        sum_key_gradients(a, g, &tile, &keys, careful, &sum);
        finite = finite && key_gradients_finite(g, &sum);
        store_keys(a, g, &tile, &sum);
    }
    return finite && query_sums_finite(a, at);
}

/* A row of dQ or dQ' from the slices' sums. */
static inline void store_sum(const arguments *a, const query_gradient *of, const long row)
{
    __global const struct attention_params *p = a->p;
    const int i = (int)(row % p->queries), h = (int)(row / p->queries % p->heads_q),
              b = (int)(row / p->queries / p->heads_q);
    __global out_t *out = of->gradient + row_offset(a, of->slot, of->tangent, b, h, i);
    for (int d = 0; d < p->head_dim; d++) {
        real sum = 0;
        for (int slice = 0; slice < p->slices; slice++)
            sum += sums_at(a, of, slice, b, h, i, 1).data[d];
        STORE_OUT(PARAM_SCALE(a) * sum, out + d);
    }
}

/* With several tangents each launch computes dQ: where it is summed in its place, each must finish it. */
static inline void store_query_row(const arguments *a, const long row)
{
    const query_gradient dq = dq_of(a), tdq = tdq_of(a);
    if (dq.gradient && (a->tangent_first == 0 || !dq.parts))
        store_sum(a, &dq, row);
    if (tdq.gradient)
        store_sum(a, &tdq, row);
}

/* The rows of an owner that shares them with no other slice. */
static inline void store_own_queries(const arguments *a, const slice_place *at)
{
    const int heads = a->p->heads_per_kv;
    for (int h = at->h_kv * heads; h < (at->h_kv + 1) * heads; h++) {
        const sequence s = sequence_of(a, at->b, h, false);
        for (int i = 0; i < s.queries; i++)
            store_query_row(a, stat_index(a, 0, s.batch, h, s.first_query + i));
    }
}

__kernel ENGINE_ATTRIBUTES void attention_backward_at_once(ATTENTION_PARAMETERS)
{
    ATTENTION_ARGUMENTS;
    GROUP(g);
    const slice_place at = slice_place_of(&a, g.tile);
    if (!walk(&a, &g, &at, false))
        walk(&a, &g, &at, true);
    if (params->slices == 1)
        store_own_queries(&a, &at);
    END_GROUP(g);
}

/* One work-item: a row that several slices have added to. */
__kernel void attention_sum_query_gradients(ATTENTION_PARAMETERS)
{
    ATTENTION_ARGUMENTS;
    store_query_row(&a, get_global_id(0));
}
