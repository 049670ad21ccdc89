/*
 * dK, dV and their tangents of a tile of keys, over all queries and all query
 * heads of a key/value head. With BACKWARD_AT_ONCE the weights of a step go to
 * the gradients of its queries as well: see backward_at_once.cl.
 */
/* dK, dV and their tangents of a tile of keys. */
typedef struct {
    lanes dk[OUTPUTS(HEAD_DIM_CLASS)];
    lanes tdk[OUTPUTS(HEAD_DIM_CLASS)];
    lanes dv[OUTPUTS(HEAD_DIM_V_CLASS)];
    lanes tdv[OUTPUTS(HEAD_DIM_V_CLASS)];
} key_gradients;

/* Adds what the queries of the tile's head contribute. */
static inline void add_head(const arguments *a, const group *g, const gradient_tile *tile, const bool careful,
                            key_gradients *sum)
{
    const range queries = inner_rows(&tile->s, true, tile->first);
    FOR_EACH_INNER_TILE (g, i0, &tile->r, true, tile->first, queries) {
        const side inner = side_at(a, &tile->s, false, i0);
        weights w;
        gradient_weights(a, g, tile, &inner, i0, false, careful, &w);
        const value_product products[] = {
#if TANGENTS
            {sum->tdv, HEAD_DIM_V_CLASS, 0, w.of[TP], &inner.dp},
#endif
            {sum->dv, HEAD_DIM_V_CLASS, 0, w.of[P], &inner.dp},
#if HAS_TDO
            {sum->tdv, HEAD_DIM_V_CLASS, 0, w.of[P], &inner.tdp},
#endif
#if TANGENTS
            {sum->tdk, HEAD_DIM_CLASS, 0, w.of[TDX], &inner.x},
#endif
            {sum->dk, HEAD_DIM_CLASS, 0, w.of[DX], &inner.x},
#if HAS_TQ
            {sum->tdk, HEAD_DIM_CLASS, 0, w.of[DX], &inner.tx},
#endif
        };
        add_value_products(g, products, sizeof products / sizeof *products, careful);
#if BACKWARD_AT_ONCE
        add_to_queries(a, g, tile, i0, careful, &w);
#endif
    }
}

/* Over all query heads of the key/value head. */
static inline void sum_key_gradients(const arguments *a, const group *g, gradient_tile *tile, const place *at,
                                     const bool careful, key_gradients *sum)
{
    CLEAR(sum->dk, OUTPUTS(HEAD_DIM_CLASS));
    CLEAR(sum->tdk, OUTPUTS(HEAD_DIM_CLASS));
    CLEAR(sum->dv, OUTPUTS(HEAD_DIM_V_CLASS));
    CLEAR(sum->tdv, OUTPUTS(HEAD_DIM_V_CLASS));
    const int heads = a->p->heads_per_kv;
    for (int h = at->h * heads; h < (at->h + 1) * heads; h++) {
        set_sequence(a, tile, at->b, h);
        add_head(a, g, tile, careful, sum);
    }
}

static inline bool key_gradients_finite(const group *g, const key_gradients *sum)
{
    return !group_any(g, !finite_outputs(g, sum->dk, HEAD_DIM_CLASS) ||
                             !finite_outputs(g, sum->tdk, HEAD_DIM_CLASS) ||
                             !finite_outputs(g, sum->dv, HEAD_DIM_V_CLASS) ||
                             !finite_outputs(g, sum->tdv, HEAD_DIM_V_CLASS));
}

static inline void store_keys(const arguments *a, const group *g, const gradient_tile *tile,
                              const key_gradients *sum)
{
    const sequence *s = &tile->s;
    const real scale = tile->r.scale;
    const int dims = a->p->head_dim, dims_v = a->p->head_dim_v, t = a->tangent_first;
    if (a->dk && t == 0) {
        const target to = KEY_TARGET(a, s, dk, SLOT_DK, 0, tile->first, dims);
        store_rows(g, &to, sum->dk, HEAD_DIM_CLASS, scale);
    }
    if (a->dv && t == 0) {
        const target to = KEY_TARGET(a, s, dv, SLOT_DV, 0, tile->first, dims_v);
        store_rows(g, &to, sum->dv, HEAD_DIM_V_CLASS, 1);
    }
    if (a->tdk) {
        const target to = KEY_TARGET(a, s, tdk, SLOT_TDK, t, tile->first, dims);
        store_rows(g, &to, sum->tdk, HEAD_DIM_CLASS, scale);
    }
    if (a->tdv) {
        const target to = KEY_TARGET(a, s, tdv, SLOT_TDV, t, tile->first, dims_v);
        store_rows(g, &to, sum->tdv, HEAD_DIM_V_CLASS, 1);
    }
}
