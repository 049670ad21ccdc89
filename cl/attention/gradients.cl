/*
 * The backward pass up to its weights: for a tile of pairs
 *     P  = exp(S - L)
 *     dS = P (Z dP - delta)        dP  = dO V^T
 *     dX = g dS                    g   = dS/dX
 * and with a tangent
 *     P'  = P (S' - mu)            mu  = L'
 *     dS' = P' (Z dP - delta) + P (Z dP' - delta')
 *     dX' = g' dS + g dS'          g'  = X' d2S/dX2
 * where delta holds sum_d dO O - dL of the row. The outer rows of a tile are
 * queries or keys, as the caller says; either way a pair is (query, key).
 */
#define HAS_TDP (HAS_TDO || HAS_TV)

/* What the queries (Q and dO) or the keys (K and V) bring to the two products X and dP, with their tangents. */
typedef struct {
    view x, dp;
    view tx, tdp;
} side;

#define SIDE_HAS_TX(keys) ((keys) ? HAS_TK : HAS_TQ)
#define SIDE_HAS_TDP(keys) ((keys) ? HAS_TV : HAS_TDO)

static inline side side_at(const arguments *a, const sequence *s, const bool keys, const int first)
{
    const int dims = a->p->head_dim, dims_v = a->p->head_dim_v;
    side rows;
    if (keys) {
        rows.x = KEY_ROWS(a, s, k, SLOT_K, 0, first, dims);
        rows.dp = KEY_ROWS(a, s, v, SLOT_V, 0, first, dims_v);
        rows.tx = KEY_ROWS(a, s, tk, SLOT_TK, 0, first, dims);
        rows.tdp = KEY_ROWS(a, s, tv, SLOT_TV, 0, first, dims_v);
    } else {
        rows.x = QUERY_ROWS(a, s, q, SLOT_Q, 0, first, dims);
        rows.dp = QUERY_ROWS(a, s, d_o, SLOT_DO, 0, first, dims_v);
        rows.tx = QUERY_ROWS(a, s, tq, SLOT_TQ, 0, first, dims);
        rows.tdp = QUERY_ROWS(a, s, tdo, SLOT_TDO, 0, first, dims_v);
    }
    return rows;
}

/* What the backward pass knows of a query. */
typedef struct {
    lanes lse, lse_low;
    lanes delta;
    lanes mu, tdelta;
} row_stats;

static inline row_stats row_stats_of(const arguments *a, const sequence *s, const ilanes query)
{
    const llanes at = stat_index(a, 0, s->batch, s->h, s->first_query) + TO_LLANES(query);
    row_stats stats;
    stats.lse = gather_real(a->lse, at);
    stats.lse_low = a->lse_low ? gather_real(a->lse_low, at) : TO_LANES(0);
    stats.delta = gather_real(a->delta, at);
#if TANGENTS
    stats.mu = gather_real(a->tlse, stat_index(a, a->tangent_first, s->batch, s->h, s->first_query) +
                                        TO_LLANES(query));
    stats.tdelta = gather_real(a->tdelta, at);
#endif
    return stats;
}

/* The outer rows of a tile, held while it walks over the inner ones. */
typedef struct {
    sequence s;
    rules r;
    int first;
    bool keys_outer;
    held x, dp;
    held tx, tdp;
    row_stats stats[OUTER_SLOTS]; /* of outer queries */
} gradient_tile;

static inline void set_sequence(const arguments *a, gradient_tile *tile, const int b, const int h)
{
    tile->s = sequence_of(a, b, h, tile->keys_outer);
    tile->r = rules_of(a, &tile->s);
}

static inline gradient_tile gradient_tile_at(const arguments *a, const group *g, const bool keys_outer,
                                             const int b, const int h, const int first)
{
    gradient_tile tile;
    tile.first = first;
    tile.keys_outer = keys_outer;
    set_sequence(a, &tile, b, h);
    const side outer = side_at(a, &tile.s, keys_outer, first);
    tile.x = hold(g, outer.x);
    tile.dp = hold(g, outer.dp);
    if (SIDE_HAS_TX(keys_outer))
        tile.tx = hold(g, outer.tx);
    if (SIDE_HAS_TDP(keys_outer))
        tile.tdp = hold(g, outer.tdp);
    if (!keys_outer && first < tile.s.queries)
        FOR_EACH_SLOT (slot)
            tile.stats[slot] =
                row_stats_of(a, &tile.s, clamp(first + outer_row(g, slot), 0, tile.s.queries - 1));
    return tile;
}

/* A tile's products, and in the same place the weights made of them. */
enum {
    P,
    DX,
    TP,
    TDX
};
#define WEIGHTS (TANGENTS ? 4 : 2)
typedef struct {
    /* P: X, then P Z; DX: dP, then dX (dS for the bias); TP: X', then P' Z; TDX: dP', then dX' (dS') */
    lanes of[WEIGHTS][SCORES];
} weights;

static inline void multiply_sides(const group *g, const gradient_tile *tile, const side *inner, weights *w)
{
    score_product products[6] = {{w->of[P], &tile->x, &inner->x}, {w->of[DX], &tile->dp, &inner->dp}};
    int count = 2;
#if TANGENTS
    if (SIDE_HAS_TX(tile->keys_outer))
        products[count++] = (score_product){w->of[TP], &tile->tx, &inner->x};
    if (SIDE_HAS_TX(!tile->keys_outer))
        products[count++] = (score_product){w->of[TP], &tile->x, &inner->tx};
    if (SIDE_HAS_TDP(tile->keys_outer))
        products[count++] = (score_product){w->of[TDX], &tile->tdp, &inner->dp};
    if (SIDE_HAS_TDP(!tile->keys_outer))
        products[count++] = (score_product){w->of[TDX], &tile->dp, &inner->tdp};
#endif
    for (int n = 0; n < WEIGHTS; n++)
        CLEAR(w->of[n], SCORES);
    add_score_products(g, products, count);
}

/* Turns element e from products into weights. `of_bias`: dS in place of dX. */
static inline void weigh(const gradient_tile *tile, const pair *at, const row_stats *stats,
                         const bool of_bias, const bool careful, weights *w, const int e)
{
    const logit z = logit_of(&tile->r, w->of[P][e], at);
    const lanes p = exp(logit_value(&z) - stats->lse - stats->lse_low);
    const lanes keep = dropout_of(&tile->r, at);
    const lanes excess = keep * w->of[DX][e] - stats->delta;
    const lanes ds = p * excess;
    const lanes dx = of_bias ? ds : z.slope * ds;
#if TANGENTS
    const lanes dot_tangent = w->of[TP][e];
    const lanes tp = p * (logit_tangent(&tile->r, &z, 0, dot_tangent, at) - stats->mu);
    const lanes tds = tp * excess + p * (keep * w->of[TDX][e] - stats->tdelta);
    const lanes tdx = of_bias ? tds : z.curve * (tile->r.scale * dot_tangent) * ds + z.slope * tds;
    w->of[TP][e] = masked(keep * tp, z.attends, careful);
    w->of[TDX][e] = masked(tdx, z.attends, careful);
#endif
    w->of[P][e] = masked(keep * p, z.attends, careful);
    w->of[DX][e] = masked(dx, z.attends, careful);
}

/* The weights of the pairs of a tile's outer rows and INNER inner rows from `inner_first` on. */
static inline void gradient_weights(const arguments *a, const group *g, const gradient_tile *tile,
                                    const side *inner_side, const int inner_first, const bool of_bias,
                                    const bool careful, weights *w)
{
    multiply_sides(g, tile, inner_side, w);
    const bool keys_outer = tile->keys_outer;
    const bool edge = keys_outer ? !all_seen(&tile->s, inner_first, INNER, tile->first, OUTER)
                                 : !all_seen(&tile->s, tile->first, OUTER, inner_first, INNER);
    FOR_EACH_SCORE (g, e, slot, inner) {
        const ilanes outer_index = tile->first + outer_row(g, slot);
        const ilanes inner_index = TO_ILANES(inner_first + inner);
        const pair at = pair_of(&tile->r, keys_outer ? inner_index : outer_index,
                                keys_outer ? outer_index : inner_index, edge);
        const row_stats stats = keys_outer ? row_stats_of(a, &tile->s, at.query) : tile->stats[slot];
        weigh(tile, &at, &stats, of_bias, careful, w, e);
    }
}
