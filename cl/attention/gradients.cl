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

/* Those of a query in each lane, and of one query for all lanes. */
#define DEFINE_ROW_STATS(name, index, WIDEN)                                                                 \
    static inline row_stats name(const arguments *a, const sequence *s, const index query)                   \
    {                                                                                                        \
        const long first = stat_index(a, 0, s->batch, s->h, s->first_query);                                 \
        row_stats stats;                                                                                     \
        stats.lse = gather_real(a->lse + first, WIDEN(query));                                               \
        stats.lse_low = a->lse_low ? gather_real(a->lse_low + first, WIDEN(query)) : TO_LANES(0);            \
        stats.delta = gather_real(a->delta + first, WIDEN(query));                                           \
        ADD_TANGENT_STATS(stats, first, WIDEN(query));                                                       \
        return stats;                                                                                        \
    }
#if TANGENTS
#define ADD_TANGENT_STATS(stats, first, query)                                                               \
    stats.mu =                                                                                               \
        gather_real(a->tlse + stat_index(a, a->tangent_first, s->batch, s->h, s->first_query), query);       \
    stats.tdelta = gather_real(a->tdelta + first, query)
#else
#define ADD_TANGENT_STATS(stats, first, query)
#endif
DEFINE_ROW_STATS(stats_of_outer, ilanes, TO_LLANES)
DEFINE_ROW_STATS(stats_of_inner, int, (long))

/* The outer rows of a tile, held while it walks over the inner ones. */
typedef struct {
    sequence s;
    rules r;
    int first;
    bool keys_outer;
    held x, dp;
    held tx, tdp;
    row_stats stats[OUTER_SLOTS]; /* of outer queries */
#if BACKWARD_AT_ONCE
    int slice;
    held_rows x_rows, tx_rows; /* of outer keys */
#endif
} gradient_tile;

static inline void set_sequence(const arguments *a, gradient_tile *tile, const int b, const int h)
{
    tile->s = sequence_of(a, b, h, tile->keys_outer);
    tile->r = rules_of(a, &tile->s);
}

/* Takes the rows from `first` on of head h; they may lie outside the sequence. */
static inline void take_rows(const arguments *a, const group *g, const bool keys_outer, const int b,
                             const int h, const int first, gradient_tile *tile)
{
    tile->first = first;
    tile->keys_outer = keys_outer;
    set_sequence(a, tile, b, h);
    const side outer = side_at(a, &tile->s, keys_outer, first);
    hold(g, outer.x, &tile->x);
    hold(g, outer.dp, &tile->dp);
    if (SIDE_HAS_TX(keys_outer))
        hold(g, outer.tx, &tile->tx);
    if (SIDE_HAS_TDP(keys_outer))
        hold(g, outer.tdp, &tile->tdp);
#if BACKWARD_AT_ONCE
    hold_rows(g, outer.x, &tile->x_rows);
    if (HAS_TK)
        hold_rows(g, outer.tx, &tile->tx_rows);
#endif
    if (!keys_outer && first < tile->s.queries)
        FOR_EACH_SLOT (slot)
            tile->stats[slot] =
                stats_of_outer(a, &tile->s, clamp(first + outer_row(g, slot), 0, tile->s.queries - 1));
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
    const bool keys = tile->keys_outer;
    score_product products[6];
    int count = 0;
    products[count++] = (score_product){w->of[P], &tile->x, &inner->x, false};
#if TANGENTS
    if (SIDE_HAS_TX(keys))
        products[count++] = (score_product){w->of[TP], &tile->tx, &inner->x, false};
    if (SIDE_HAS_TX(!keys))
        products[count++] = (score_product){w->of[TP], &tile->x, &inner->tx, SIDE_HAS_TX(keys)};
#endif
    products[count++] = (score_product){w->of[DX], &tile->dp, &inner->dp, false};
#if TANGENTS
    if (SIDE_HAS_TDP(keys))
        products[count++] = (score_product){w->of[TDX], &tile->tdp, &inner->dp, false};
    if (SIDE_HAS_TDP(!keys))
        products[count++] = (score_product){w->of[TDX], &tile->dp, &inner->tdp, SIDE_HAS_TDP(keys)};
    if (!HAS_TX)
        CLEAR(w->of[TP], SCORES);
    if (!HAS_TDP)
        CLEAR(w->of[TDX], SCORES);
#endif
    make_score_products(g, products, count);
}

/* Turns element e from products into weights. `of_bias`: dS in place of dX. */
static inline void weigh(const rules *r, const pair *at, const row_stats *stats, const bool of_bias,
                         const bool careful, weights *w, const int e)
{
    const logit z = logit_of(r, w->of[P][e], at);
    const lanes p = EXP(logit_value(&z) - stats->lse - stats->lse_low);
    const lanes keep = is_kept(r, at) ? TO_LANES(kept_scale(r)) : TO_LANES(0);
    const lanes excess = keep * w->of[DX][e] - stats->delta;
    const lanes ds = p * excess;
    const lanes dx = of_bias ? ds : z.slope * ds;
#if TANGENTS
    const lanes dot_tangent = w->of[TP][e];
    const lanes tp = p * (logit_tangent(r, &z, 0, dot_tangent, at) - stats->mu);
    const lanes tds = tp * excess + p * (keep * w->of[TDX][e] - stats->tdelta);
    const lanes tdx = of_bias ? tds : z.curve * (r->scale * dot_tangent) * ds + z.slope * tds;
    w->of[TP][e] = masked(keep * tp, z.attends, careful);
    w->of[TDX][e] = masked(tdx, z.attends, careful);
#endif
    w->of[P][e] = masked(keep * p, z.attends, careful);
    w->of[DX][e] = masked(dx, z.attends, careful);
}

/* All elements of a tile. */
static inline void weigh_tile(const arguments *a, const group *g, const gradient_tile *tile, const rules *r,
                              const int inner_first, const bool of_bias, weights *w, const bool edge,
                              const bool careful)
{
    const bool keys_outer = tile->keys_outer;
    FOR_EACH_SCORE (g, e, slot, inner) {
        const ilanes outer_index = tile->first + outer_row(g, slot);
        const ilanes inner_index = TO_ILANES(inner_first + inner);
        const pair at = pair_of(r, keys_outer ? inner_index : outer_index,
                                keys_outer ? outer_index : inner_index, e, edge);
        const row_stats stats =
            keys_outer ? stats_of_inner(a, &tile->s, clamp(inner_first + inner, 0, tile->s.queries - 1))
                       : tile->stats[slot];
        weigh(r, &at, &stats, of_bias, careful, w, e);
    }
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
    pair_rooms rooms;
    const pair_tile pairs = pair_tile_at(&tile->s, keys_outer, tile->first, inner_first);
    const rules r = rules_in_tile(g, &tile->r, &pairs, &rooms);
    if (TAKES_PLAIN_COPY(edge || careful))
        weigh_tile(a, g, tile, &r, inner_first, of_bias, w, false, false);
    else
        weigh_tile(a, g, tile, &r, inner_first, of_bias, w, edge, careful);
}
