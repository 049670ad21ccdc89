/*
 * Forward attention with any number of tangents, one pass over the keys.
 * Written in an engine's words; knows no device.
 *
 * Per row, with the running maximum m and p = exp(S - m):
 *     l = sum p        r = sum p S'
 *     A = sum p V      G = sum p S' V + p V'
 * all rescaled by exp(m_old - m_new) when m grows. At the end
 *     O = A / l    mu = r / l    O' = G / l - mu O    L = m + log l    L' = mu
 */

/* What stays the same while a tile of queries walks over the keys. */
typedef struct {
    sequence s;
    rules r;
    int first;
    held q;
    held tq[TANGENT_ARRAY];
} query_tile;

typedef struct {
    lanes maximum[OUTER_SLOTS];
    lanes sum[OUTER_SLOTS];
    lanes tangent_sum[TANGENT_ARRAY][OUTER_SLOTS];
    lanes output[OUTPUTS(HEAD_DIM_V_CLASS)];
    lanes tangent_output[TANGENT_ARRAY][OUTPUTS(HEAD_DIM_V_CLASS)];
} running;

static inline query_tile query_tile_at(const arguments *a, const group *g)
{
    const place at = place_of(a, g->tile, false, a->p->heads_q);
    query_tile tile;
    tile.s = sequence_of(a, at.b, at.h, false);
    tile.r = rules_of(a, &tile.s);
    tile.first = at.first;
    tile.q = hold(g, QUERY_ROWS(a, &tile.s, q, SLOT_Q, 0, at.first, a->p->head_dim));
#if HAS_TQ
    for (int t = 0; t < TANGENTS; t++)
        tile.tq[t] = hold(g, QUERY_ROWS(a, &tile.s, tq, SLOT_TQ, t, at.first, a->p->head_dim));
#endif
    return tile;
}

/* A sink is one more logit that a row starts with: weight exp(0) and no value. */
static inline void start(const arguments *a, const group *g, const query_tile *tile, running *run)
{
    const real sink = a->sink && tile->s.owned ? a->sink[tile->s.h] : (real)-INFINITY;
    const bool counts = owns_slots(g) && sink != -INFINITY;
    FOR_EACH_SLOT (slot) {
        run->maximum[slot] = sink;
        run->sum[slot] = counts ? 1 : 0;
        for (int t = 0; t < TANGENTS; t++)
            run->tangent_sum[t][slot] =
                counts && a->tsink ? a->tsink[(a->tangent_first + t) * a->p->heads_q + tile->s.h] : (real)0;
    }
    CLEAR(run->output, OUTPUTS(HEAD_DIM_V_CLASS));
    for (int t = 0; t < TANGENTS; t++)
        CLEAR(run->tangent_output[t], OUTPUTS(HEAD_DIM_V_CLASS));
}

/* S, -inf where a pair does not attend, and S', there 0. */
static inline void score(const arguments *a, const group *g, const query_tile *tile, const int j0,
                         lanes *scores, lanes tangents[TANGENT_ARRAY][SCORES])
{
    const view k = KEY_ROWS(a, &tile->s, k, SLOT_K, 0, j0, a->p->head_dim);
    view tk[TANGENT_ARRAY];
    score_product products[1 + 2 * TANGENT_ARRAY] = {{scores, &tile->q, &k}};
    int count = 1;
    CLEAR(scores, SCORES);
    for (int t = 0; t < TANGENTS; t++) {
        CLEAR(tangents[t], SCORES);
        if (HAS_TQ)
            products[count++] = (score_product){tangents[t], &tile->tq[t], &k};
        if (HAS_TK) {
            tk[t] = KEY_ROWS(a, &tile->s, tk, SLOT_TK, t, j0, a->p->head_dim);
            products[count++] = (score_product){tangents[t], &tile->q, &tk[t]};
        }
    }
    add_score_products(g, products, count);
    const bool edge = !all_seen(&tile->s, tile->first, OUTER, j0, INNER);
    FOR_EACH_SCORE (g, e, slot, inner) {
        const pair at = pair_of(&tile->r, tile->first + outer_row(g, slot), TO_ILANES(j0 + inner), edge);
        const logit z = logit_of(&tile->r, scores[e], &at);
        scores[e] = z.attends ? logit_value(&z) : TO_LANES(-INFINITY);
#if HAS_TS
        for (int t = 0; t < TANGENTS; t++) {
            const lanes tangent = logit_tangent(&tile->r, &z, t, tangents[t][e], &at);
            tangents[t][e] = z.attends ? tangent : TO_LANES(0);
        }
#endif
    }
}

/* Raises the running maxima by a tile of scores; base is what to subtract from them, keep what the sums so
 * far are to be multiplied by. */
static inline void raise_maxima(const group *g, const lanes *scores, running *run, lanes *base, lanes *keep)
{
    lanes top[OUTER_SLOTS];
    FOR_EACH_SLOT (slot)
        top[slot] = run->maximum[slot];
    FOR_EACH_SCORE (g, e, slot, inner)
        top[slot] = fmax(top[slot], scores[e]);
    reduce_maximum(g, top);
    FOR_EACH_SLOT (slot) {
        base[slot] = top[slot] == -INFINITY ? TO_LANES(0) : top[slot];
        keep[slot] = exp(run->maximum[slot] - base[slot]);
        run->maximum[slot] = top[slot];
    }
}

static inline lanes dropout_at(const query_tile *tile, const group *g, const int slot, const int key)
{
    const pair at = {tile->first + outer_row(g, slot), TO_ILANES(key), ALL_LANES};
    return dropout_of(&tile->r, &at);
}

/* Scores become Z p with p = exp(S - m), tangents Z p S'; the sums of p and p S' go to l and r. Each tile is summed
 * from zero. */
static inline void exponentiate(const group *g, const query_tile *tile, const int j0, const lanes *base,
                                const lanes *keep, const bool careful, running *run, lanes *scores,
                                lanes tangents[TANGENT_ARRAY][SCORES])
{
    lanes sum[OUTER_SLOTS], tangent_sum[TANGENT_ARRAY][OUTER_SLOTS];
    FOR_EACH_SLOT (slot) {
        sum[slot] = 0;
        for (int t = 0; t < TANGENTS; t++)
            tangent_sum[t][slot] = 0;
    }
    FOR_EACH_SCORE (g, e, slot, inner) {
        const ilanes attends = scores[e] != -INFINITY;
        const lanes p = exp(scores[e] - base[slot]);
        const lanes z = dropout_at(tile, g, slot, j0 + inner);
        sum[slot] += p;
        scores[e] = masked(z * p, attends, careful);
        for (int t = 0; t < TANGENTS; t++) {
            const lanes weight = p * tangents[t][e];
            tangent_sum[t][slot] += weight;
            tangents[t][e] = masked(z * weight, attends, careful);
        }
    }
    FOR_EACH_SLOT (slot) {
        run->sum[slot] = MULTIPLY_ADD(run->sum[slot], keep[slot], sum[slot]);
        for (int t = 0; t < TANGENTS; t++)
            run->tangent_sum[t][slot] =
                MULTIPLY_ADD(run->tangent_sum[t][slot], keep[slot], tangent_sum[t][slot]);
    }
}

/* One tile of keys. */
static inline void step(const arguments *a, const group *g, const query_tile *tile, const int j0,
                        const bool careful, running *run)
{
    lanes scores[SCORES], tangents[TANGENT_ARRAY][SCORES];
    lanes base[OUTER_SLOTS], keep[OUTER_SLOTS];
    score(a, g, tile, j0, scores, tangents);
    raise_maxima(g, scores, run, base, keep);
    exponentiate(g, tile, j0, base, keep, careful, run, scores, tangents);

    const view v = KEY_ROWS(a, &tile->s, v, SLOT_V, 0, j0, a->p->head_dim_v);
    view tv[TANGENT_ARRAY];
    value_product products[1 + 2 * TANGENT_ARRAY] = {{run->output, HEAD_DIM_V_CLASS, keep, scores, &v}};
    int count = 1;
    for (int t = 0; t < TANGENTS; t++) {
        lanes *output = run->tangent_output[t];
        if (HAS_TV) {
            tv[t] = KEY_ROWS(a, &tile->s, tv, SLOT_TV, t, j0, a->p->head_dim_v);
            products[count++] = (value_product){output, HEAD_DIM_V_CLASS, keep, scores, &tv[t]};
        }
        if (HAS_TS)
            products[count++] = (value_product){output, HEAD_DIM_V_CLASS, HAS_TV ? 0 : keep, tangents[t], &v};
    }
    add_value_products(g, products, count, careful);
}

/* Sums become O, mu and O'. A row with nothing to attend to has l = 0 and stays 0. */
static inline void finish(const group *g, running *run)
{
    reduce_sum(g, run->sum);
    for (int t = 0; t < TANGENTS; t++)
        reduce_sum(g, run->tangent_sum[t]);
    lanes inverse[OUTER_SLOTS];
    FOR_EACH_SLOT (slot) {
        /* every logit of the row was -inf (see logit_value): an infinity among its inputs, which shows */
        run->sum[slot] = run->maximum[slot] == -REAL_MAX ? TO_LANES(NAN) : run->sum[slot];
        inverse[slot] = run->sum[slot] == 0 ? TO_LANES(0) : 1 / run->sum[slot];
        for (int t = 0; t < TANGENTS; t++)
            run->tangent_sum[t][slot] *= inverse[slot];
    }
    FOR_EACH_OUTPUT (g, e, slot, d, HEAD_DIM_V_CLASS) {
        run->output[e] *= inverse[slot];
        for (int t = 0; t < TANGENTS; t++)
            run->tangent_output[t][e] =
                run->tangent_output[t][e] * inverse[slot] - run->tangent_sum[t][slot] * run->output[e];
    }
}

static inline bool all_finite(const group *g, const running *run)
{
    bool finite = finite_outputs(run->output, OUTPUTS(HEAD_DIM_V_CLASS));
    for (int t = 0; t < TANGENTS; t++)
        finite = finite && finite_outputs(run->tangent_output[t], OUTPUTS(HEAD_DIM_V_CLASS));
    return !group_any(g, !finite);
}

/* Rows of O or O' unrounded, where the call keeps them. */
static inline void store_full(const arguments *a, const group *g, const query_tile *tile, const int t,
                              __global real *full, const lanes *output)
{
    const sequence *s = &tile->s;
    const long first = stat_index(a, t, s->batch, s->h, s->first_query + tile->first);
    FOR_EACH_OUTPUT (g, e, slot, d, HEAD_DIM_V_CLASS) {
        const ilanes row = outer_row(g, slot);
        scatter_real(full, (first + TO_LLANES(row)) * a->p->head_dim_v + d, output[e],
                     (row + tile->first < s->queries) & (d < a->p->head_dim_v));
    }
}

static inline void store_outputs(const arguments *a, const group *g, const query_tile *tile,
                                 const running *run)
{
    const sequence *s = &tile->s;
    const int dims = a->p->head_dim_v;
    if (a->o) {
        const target to = QUERY_TARGET(a, s, o, SLOT_O, 0, tile->first, dims);
        store_tile(g, &to, run->output, HEAD_DIM_V_CLASS, 1);
    }
    if (a->o_full)
        store_full(a, g, tile, 0, a->o_full, run->output);
    for (int t = 0; t < TANGENTS; t++) {
        const int tangent = a->tangent_first + t;
        if (a->to) {
            const target to = QUERY_TARGET(a, s, to, SLOT_TO, tangent, tile->first, dims);
            store_tile(g, &to, run->tangent_output[t], HEAD_DIM_V_CLASS, 1);
        }
        if (a->to_full)
            store_full(a, g, tile, tangent, a->to_full, run->tangent_output[t]);
    }
}

static inline void store_rows(const arguments *a, const group *g, const query_tile *tile, const running *run)
{
    const sequence *s = &tile->s;
    FOR_EACH_SLOT (slot) {
        const ilanes row = outer_row(g, slot) + tile->first;
        const ilanes inside = row < s->queries;
        const llanes at = stat_index(a, 0, s->batch, s->h, s->first_query) + TO_LLANES(row);
        const lanes log_sum = log(run->sum[slot]);
        const lanes lse = run->maximum[slot] + log_sum;
        /* what lse lost, so that lse + low is m + log l; an empty row has lost nothing */
        const lanes low = run->sum[slot] == 0 ? TO_LANES(0) : run->maximum[slot] - lse + log_sum;
        if (a->lse)
            scatter_real(a->lse, at, lse, inside);
        if (a->lse_low)
            scatter_real(a->lse_low, at, low, inside);
        for (int t = 0; t < TANGENTS; t++)
            if (a->tlse)
                scatter_real(a->tlse,
                             stat_index(a, a->tangent_first + t, s->batch, s->h, s->first_query) +
                                 TO_LLANES(row),
                             run->tangent_sum[t][slot], inside);
    }
}

/* One work-group: OUTER queries of one head. */
__kernel ENGINE_ATTRIBUTES void attention_forward(ATTENTION_PARAMETERS)
{
    ATTENTION_ARGUMENTS;
    GROUP(g);
    const query_tile tile = query_tile_at(&a, &g);
    const range keys = inner_rows(&tile.s, false, tile.first);

    running run;
    TWICE_IF_NOT_FINITE (careful, all_finite(&g, &run)) {
        start(&a, &g, &tile, &run);
        FOR_EACH_INNER_TILE (&g, j0, &tile.r, false, tile.first, keys)
            step(&a, &g, &tile, j0, careful, &run);
        finish(&g, &run);
    }

    store_outputs(&a, &g, &tile, &run);
    if (owns_slots(&g))
        store_rows(&a, &g, &tile, &run);
}
