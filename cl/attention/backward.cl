/*
 * Gradients and their tangents, by two passes that share gradients.cl:
 *     queries outer:  dQ = s dX K        dQ' = s (dX' K + dX K')
 *     keys outer:     dK = s dX^T Q      dK' = s (dX'^T Q + dX^T Q')
 *                     dV = P^T dO        dV' = P'^T dO + P^T dO'
 * Each result has one owner, so there are no atomics and the sums have one
 * order. With several tangents there is one launch each; the first writes the
 * gradients themselves.
 */

/* dQ and dQ' of a tile of queries. */
typedef struct {
    lanes dq[OUTPUTS(HEAD_DIM_CLASS)];
    lanes tdq[OUTPUTS(HEAD_DIM_CLASS)];
} query_gradients;

static inline void sum_query_gradients(const arguments *a, const group *g, const gradient_tile *tile,
                                       const bool careful, query_gradients *sum)
{
    CLEAR(sum->dq, OUTPUTS(HEAD_DIM_CLASS));
    CLEAR(sum->tdq, OUTPUTS(HEAD_DIM_CLASS));
    const range keys = inner_rows(&tile->s, false, tile->first);
    FOR_EACH_INNER_TILE (g, j0, &tile->r, false, tile->first, keys) {
        const side inner = side_at(a, &tile->s, true, j0);
        weights w;
        gradient_weights(a, g, tile, &inner, j0, false, careful, &w);
        const value_product products[] = {
#if TANGENTS
            {sum->tdq, HEAD_DIM_CLASS, 0, w.of[TDX], &inner.x},
#endif
            {sum->dq, HEAD_DIM_CLASS, 0, w.of[DX], &inner.x},
#if HAS_TK
            {sum->tdq, HEAD_DIM_CLASS, 0, w.of[DX], &inner.tx},
#endif
        };
        add_value_products(g, products, sizeof products / sizeof *products, careful);
    }
}

static inline bool query_gradients_finite(const group *g, const query_gradients *sum)
{
    return !group_any(g, !finite_outputs(g, sum->dq, HEAD_DIM_CLASS) ||
                             !finite_outputs(g, sum->tdq, HEAD_DIM_CLASS));
}

/* One work-group: OUTER queries of one head. */
__kernel ENGINE_ATTRIBUTES void attention_backward_queries(ATTENTION_PARAMETERS)
{
    ATTENTION_ARGUMENTS;
    GROUP(g);
    const place at = place_of(&a, g.tile, false, params->heads_q);
    gradient_tile tile;
    take_rows(&a, &g, false, at.b, at.h, at.first, &tile);
    query_gradients sum;
    TWICE_IF_NOT_FINITE (careful, query_gradients_finite(&g, &sum))
        sum_query_gradients(&a, &g, &tile, careful, &sum);

    const int dims = params->head_dim;
    if (a.dq && tangent_first == 0) {
        const target to = QUERY_TARGET(&a, &tile.s, dq, SLOT_DQ, 0, at.first, dims);
        store_rows(&g, &to, sum.dq, HEAD_DIM_CLASS, tile.r.scale);
    }
    if (a.tdq) {
        const target to = QUERY_TARGET(&a, &tile.s, tdq, SLOT_TDQ, tangent_first, at.first, dims);
        store_rows(&g, &to, sum.tdq, HEAD_DIM_CLASS, tile.r.scale);
    }
    END_GROUP(g);
}

/* One work-group: OUTER keys of one key/value head. */
__kernel ENGINE_ATTRIBUTES void attention_backward_keys(ATTENTION_PARAMETERS)
{
    ATTENTION_ARGUMENTS;
    GROUP(g);
    const place at = place_of(&a, g.tile, true, params->heads_kv);
    gradient_tile tile;
    take_rows(&a, &g, true, at.b, at.h * params->heads_per_kv, at.first, &tile);
    tile.s.h_kv = at.h; /* also where there are no query heads to tell it by */
    key_gradients sum;
    TWICE_IF_NOT_FINITE (careful, key_gradients_finite(&g, &sum))
        sum_key_gradients(&a, &g, &tile, &at, careful, &sum);
    store_keys(&a, &g, &tile, &sum);
    END_GROUP(g);
}
