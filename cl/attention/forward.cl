/*
 * Forward attention with any number of tangents, one pass over the keys.
 * Written in an engine's words; knows no device.
 *
 * Per row, with m the running maximum (or a little less) and p = exp(S - m):
 *     l = sum p        r = sum p S'
 *     A = sum p V      G = sum p S' V + p V'
 * all rescaled by exp(m_old - m_new) when m grows. At the end
 *     O = A / l    mu = r / l    O' = G / l - mu O    L = m + log l    L' = mu
 *
 * Engines that round the weights p and p S' for a product divide A and G by
 * sums of the rounded ones. Then errors go with V - O and not with V: where one
 * key has nearly all of the weight, G / l and mu O cancel. L and L' are made of
 * sums that are not rounded.
 */

/* What stays the same while a tile of queries walks over the keys. */
typedef struct {
    sequence s;
    rules r;
    int first;
    int split; /* which part of the keys, where they are split */
    held q;
    held tq[TANGENT_ARRAY];
} query_tile;

/* l and r of each slot. */
typedef struct {
    lanes l[OUTER_SLOTS];
    lanes r[TANGENT_ARRAY][OUTER_SLOTS];
} weight_sums;

typedef struct {
    lanes base[OUTER_SLOTS]; /* m */
    weight_sums sums;
#if ENGINE_ROUNDS_WEIGHTS
    weight_sums rounded;
#endif
    lanes output[OUTPUTS(HEAD_DIM_V_CLASS)];
    lanes tangent_output[TANGENT_ARRAY][OUTPUTS(HEAD_DIM_V_CLASS)];
} running;

/* Scores of a step and their tangents; then the weights that they become. */
typedef struct {
    lanes scores[SCORES];
    lanes tangents[TANGENT_ARRAY][SCORES];
} step_scores;

static inline void take_queries(const arguments *a, const group *g, query_tile *tile)
{
    const place at = place_of(a, g->tile / a->p->splits, false, a->p->heads_q);
    tile->split = (int)(g->tile % a->p->splits);
    tile->s = sequence_of(a, at.b, at.h, false);
    tile->r = rules_of(a, &tile->s);
    tile->first = at.first;
    hold(g, QUERY_ROWS(a, &tile->s, q, SLOT_Q, 0, at.first, a->p->head_dim), &tile->q);
#if HAS_TQ
    FOR_EACH_TANGENT (t)
        hold(g, QUERY_ROWS(a, &tile->s, tq, SLOT_TQ, t, at.first, a->p->head_dim), &tile->tq[t]);
#endif
}

/* The keys of the tile's part: whole steps of those that it sees. */
static inline range keys_of_part(const arguments *a, const query_tile *tile)
{
    const range all = inner_rows(&tile->s, false, tile->first);
    const int splits = a->p->splits, steps = (all.end - all.begin + INNER - 1) / INNER;
    const int each = (steps + splits - 1) / splits * INNER, begin = all.begin + tile->split * each;
    const range part = {begin, min(begin + each, all.end)};
    return part;
}

/* A sink is one more logit that a row starts with, in the first part of its keys: weight exp(0) and no value. */
static inline void start_sums(const arguments *a, const query_tile *tile, const bool sink, weight_sums *sums)
{
    FOR_EACH_SLOT (slot) {
        sums->l[slot] = TO_LANES(sink ? 1 : 0);
        FOR_EACH_TANGENT (t)
            sums->r[t][slot] =
                sink && a->tsink ? a->tsink[(a->tangent_first + t) * a->p->heads_q + tile->s.h] : (real)0;
    }
}

static inline void start(const arguments *a, const group *g, const query_tile *tile, running *run)
{
    const bool has_sink = a->sink && tile->s.owned && tile->split == 0;
    const real sink = has_sink ? a->sink[tile->s.h] : (real)-INFINITY;
    const bool counts = owns_slots(g) && sink != -INFINITY;
    FOR_EACH_SLOT (slot)
        run->base[slot] = sink;
    start_sums(a, tile, counts, &run->sums);
#if ENGINE_ROUNDS_WEIGHTS
    start_sums(a, tile, counts, &run->rounded);
#endif
    clear_outputs(g, run->output, HEAD_DIM_V_CLASS);
    FOR_EACH_TANGENT (t)
        clear_outputs(g, run->tangent_output[t], HEAD_DIM_V_CLASS);
}

/* Dot products to S, -inf where a pair does not attend, and S', there 0; `top` rises to the largest S of each slot.
 * Where all pairs attend, a logit of -inf needs no place of its own: its row is told by `top`. */
static inline void apply_rules(const group *g, const query_tile *tile, const rules *r, const int j0,
                               step_scores *s, lanes *top, const bool edge, const bool all_attend)
{
    if (all_attend)
        FOR_EACH_SLOT (slot)
            top[slot] = MAXIMUM(TO_LANES(-REAL_MAX), top[slot]);
    FOR_EACH_SCORE (g, e, slot, inner) {
        const pair at = pair_of(r, tile->first + outer_row(g, slot), TO_ILANES(j0 + inner), e, edge);
        const logit z = logit_of(r, s->scores[e], &at);
        s->scores[e] = all_attend ? z.value : z.attends ? logit_value(&z) : TO_LANES(-INFINITY);
        top[slot] = MAXIMUM(top[slot], s->scores[e]);
#if HAS_TS
        FOR_EACH_TANGENT (t) {
            const lanes tangent = logit_tangent(r, &z, t, s->tangents[t][e], &at);
            s->tangents[t][e] = z.attends ? tangent : TO_LANES(0);
        }
#endif
    }
}

/* What is to be done with a list of products. */
#define START 1
#define FINISH 2
#define FINISH_OLDER 4 /* than the list that was started last, which may go on */
#define HAND_OVER 8

/* The products that make a tile's dot products and their tangents. */
static inline void score_products(const arguments *a, const group *g, const query_tile *tile, const int j0,
                                  step_scores *s, const int doing)
{
    const view k = KEY_ROWS(a, &tile->s, k, SLOT_K, 0, j0, a->p->head_dim);
    view tk[TANGENT_ARRAY];
    score_product products[1 + 2 * TANGENT_ARRAY] = {{s->scores, &tile->q, &k, false}};
    int count = 1;
    FOR_EACH_TANGENT (t) {
        if (!HAS_TX && (doing & START)) {
            FOR_EACH_SCORE (g, e, slot, inner)
                s->tangents[t][e] = 0;
        }
        if (HAS_TQ)
            products[count++] = (score_product){s->tangents[t], &tile->tq[t], &k, false};
    }
#if HAS_TK
    FOR_EACH_TANGENT (t) {
        tk[t] = KEY_ROWS(a, &tile->s, tk, SLOT_TK, t, j0, a->p->head_dim);
        products[count++] = (score_product){s->tangents[t], &tile->q, &tk[t], HAS_TQ};
    }
#endif
    if (doing & START)
        start_score_products(g, products, count);
    if (doing & FINISH)
        finish_score_products(g, products, count);
#if ENGINE_LOOKS_AHEAD
    if (doing & FINISH_OLDER)
        finish_older_score_products(g, products, count);
#endif
}

/* Dot products to S and S', and in `top` the largest S of each slot, if it is larger than what is there. */
static inline void score(const group *g, const query_tile *tile, const int j0, const bool careful,
                         step_scores *s, lanes *top)
{
    pair_rooms rooms;
    const pair_tile pairs = pair_tile_at(&tile->s, false, tile->first, j0);
    const rules r = rules_in_tile(g, &tile->r, &pairs, &rooms);
    const bool edge = !all_seen(&tile->s, tile->first, OUTER, j0, INNER);
    if (TAKES_PLAIN_COPY(edge || careful))
        apply_rules(g, tile, &r, j0, s, top, false, !RULES_MASK_PAIRS);
    else
        apply_rules(g, tile, &r, j0, s, top, edge, false);
}

/*
 * Raises the rows' bases to BASE_BELOW under `top`, where that is more than
 * LAZY_RISE: as long as exponentials do not leave their range, any base will
 * do. base is what to subtract from scores, keep what the sums so far are to be
 * multiplied by.
 */
static inline void raise_bases(const group *g, lanes *top, running *run, lanes *base, lanes *keep)
{
    reduce_maximum(g, top);
    FOR_EACH_SLOT (slot) {
        const lanes was = run->base[slot];
        const lanes now = top[slot] > was + (BASE_BELOW + LAZY_RISE) ? top[slot] - BASE_BELOW : was;
        const lanes from = now == -INFINITY ? TO_LANES(0) : now;
        keep[slot] = EXP(was - from);
        base[slot] = EXP_BASE(from);
        run->base[slot] = now;
    }
}

static inline ilanes kept_at(const query_tile *tile, const group *g, const int slot, const int key,
                             const int e)
{
    const pair at = {tile->first + outer_row(g, slot), TO_ILANES(key), TO_ILANES(ALL_LANES), e};
    return is_kept(&tile->r, &at);
}

static inline void clear_sums(weight_sums *sums)
{
    FOR_EACH_SLOT (slot) {
        sums->l[slot] = 0;
        FOR_EACH_TANGENT (t)
            sums->r[t][slot] = 0;
    }
}

/* sums = keep sums + of_tile */
static inline void add_sums_of_tile(weight_sums *sums, const lanes *keep, const weight_sums *of_tile)
{
    FOR_EACH_SLOT (slot) {
        sums->l[slot] = MULTIPLY_ADD(sums->l[slot], keep[slot], of_tile->l[slot]);
        FOR_EACH_TANGENT (t)
            sums->r[t][slot] = MULTIPLY_ADD(sums->r[t][slot], keep[slot], of_tile->r[t][slot]);
    }
}

/* Scores become p = exp(S - m), tangents p S', both 0 where dropout does not keep the pair; their sums, over all pairs,
 * go to l and r. Each tile is summed from zero. */
static inline void exponentiate(const group *g, const query_tile *tile, const int j0, const lanes *base,
                                const lanes *keep, running *run, step_scores *s, const bool careful)
{
    weight_sums sums, rounded;
    clear_sums(&sums);
    clear_sums(&rounded);
    FOR_EACH_SCORE (g, e, slot, inner) {
        const ilanes attends = s->scores[e] != -INFINITY, kept = kept_at(tile, g, slot, j0 + inner, e);
        const lanes p = EXP_ABOVE(s->scores[e], base[slot]), weight = ROUND_WEIGHT(p);
        sums.l[slot] += p;
        rounded.l[slot] += weight;
        s->scores[e] = marked(kept ? weight : TO_LANES(0), attends, careful);
        FOR_EACH_TANGENT (t) {
            const lanes tangent = p * s->tangents[t][e], tangent_weight = ROUND_WEIGHT(tangent);
            sums.r[t][slot] += tangent;
            rounded.r[t][slot] += tangent_weight;
            s->tangents[t][e] = marked(kept ? tangent_weight : TO_LANES(0), attends, careful);
        }
    }
    add_sums_of_tile(&run->sums, keep, &sums);
#if ENGINE_ROUNDS_WEIGHTS
    add_sums_of_tile(&run->rounded, keep, &rounded);
#endif
}

/* A tile's dot products become its weights; keep is what the sums so far are to be multiplied by. */
static inline void weigh(const group *g, const query_tile *tile, const int j0, const bool careful,
                         step_scores *s, running *run, lanes *keep)
{
    lanes top[OUTER_SLOTS], base[OUTER_SLOTS];
    FOR_EACH_SLOT (slot)
        top[slot] = run->base[slot];
    score(g, tile, j0, careful, s, top);
    raise_bases(g, top, run, base, keep);
    if (TAKES_PLAIN_COPY(careful))
        exponentiate(g, tile, j0, base, keep, run, s, false);
    else
        exponentiate(g, tile, j0, base, keep, run, s, careful);
}

/* The products of a tile's weights with values. */
static inline void value_products(const arguments *a, const group *g, const query_tile *tile, const int j0,
                                  const step_scores *s, const lanes *keep, running *run, const bool careful,
                                  operand *weights, const int doing)
{
    const view v = KEY_ROWS(a, &tile->s, v, SLOT_V, 0, j0, a->p->head_dim_v);
    view tv[TANGENT_ARRAY];
    value_product products[1 + 2 * TANGENT_ARRAY];
    int count = 0;
#if HAS_TS
    FOR_EACH_TANGENT (t)
        products[count++] =
            (value_product){run->tangent_output[t], HEAD_DIM_V_CLASS, keep, s->tangents[t], &v};
#endif
    products[count++] = (value_product){run->output, HEAD_DIM_V_CLASS, keep, s->scores, &v};
#if HAS_TV
    FOR_EACH_TANGENT (t) {
        tv[t] = KEY_ROWS(a, &tile->s, tv, SLOT_TV, t, j0, a->p->head_dim_v);
        products[count++] =
            (value_product){run->tangent_output[t], HEAD_DIM_V_CLASS, HAS_TS ? 0 : keep, s->scores, &tv[t]};
    }
#endif
#if ENGINE_LOOKS_AHEAD
    if (doing & HAND_OVER)
        hand_over_list(g, products, count, weights);
    if (doing & START && weights)
        start_handed_products(g, products, count, weights);
#endif
    if (doing & START && !weights)
        start_value_products(g, products, count, careful);
    if (doing & FINISH)
        finish_value_products(g, products, count);
}

/* One tile of keys. */
static inline void step(const arguments *a, const group *g, const query_tile *tile, const int j0,
                        const bool careful, running *run)
{
    step_scores s;
    lanes keep[OUTER_SLOTS];
    score_products(a, g, tile, j0, &s, START | FINISH);
    weigh(g, tile, j0, careful, &s, run, keep);
    value_products(a, g, tile, j0, &s, keep, run, careful, 0, START | FINISH);
}

#if ENGINE_LOOKS_AHEAD
/* All tiles, each one's dot products on their way while the weights of the one before it meet their values. */
static inline void step_ahead(const arguments *a, const group *g, const query_tile *tile, const range keys,
                              running *run)
{
    int j0 = next_tile(g, &tile->r, false, tile->first, keys.begin, keys.end);
    if (j0 >= keys.end)
        return;
    step_scores s;
    operand weights[1 + 2 * TANGENT_ARRAY];
    lanes keep[OUTER_SLOTS];
    score_products(a, g, tile, j0, &s, START | FINISH);
    weigh(g, tile, j0, false, &s, run, keep);
    value_products(a, g, tile, j0, &s, keep, run, false, weights, HAND_OVER);
    int next = next_tile(g, &tile->r, false, tile->first, j0 + INNER, keys.end);
    while (next < keys.end) {
        lanes next_keep[OUTER_SLOTS];
        score_products(a, g, tile, next, &s, START);
        value_products(a, g, tile, j0, &s, keep, run, false, weights, START);
        score_products(a, g, tile, next, &s, FINISH_OLDER);
        weigh(g, tile, next, false, &s, run, next_keep);
        const int after = next_tile(g, &tile->r, false, tile->first, next + INNER, keys.end);
        if (after < keys.end)
            await_next_rows(g);
        value_products(a, g, tile, j0, &s, keep, run, false, weights, FINISH);
        value_products(a, g, tile, next, &s, next_keep, run, false, weights, HAND_OVER);
        FOR_EACH_SLOT (slot)
            keep[slot] = next_keep[slot];
        j0 = next;
        next = after;
    }
    value_products(a, g, tile, j0, &s, keep, run, false, weights, START | FINISH);
}
#endif

/* l and r become 1 / l and mu; 1 / l of a row with nothing to attend to is 0. */
static inline void invert_sums(weight_sums *sums, lanes *inverse)
{
    FOR_EACH_SLOT (slot) {
        inverse[slot] = sums->l[slot] == 0 ? TO_LANES(0) : 1 / sums->l[slot];
        FOR_EACH_TANGENT (t)
            sums->r[t][slot] *= inverse[slot];
    }
}

/* A row whose every logit was -inf (see logit_value) shows it, unless other parts of its keys are still to be looked at. */
static inline void reduce_sums(const group *g, const running *run, const bool whole, weight_sums *sums)
{
    reduce_sum(g, sums->l);
    FOR_EACH_TANGENT (t)
        reduce_sum(g, sums->r[t]);
    FOR_EACH_SLOT (slot)
        sums->l[slot] = run->base[slot] == -REAL_MAX ? TO_LANES(whole ? NAN : 1) : sums->l[slot];
}

/* Sums become O, mu and O'. A row with nothing to attend to stays 0. */
static inline void finish(const group *g, const query_tile *tile, const bool whole, running *run)
{
    lanes inverse[OUTER_SLOTS];
    reduce_sums(g, run, whole, &run->sums);
    const weight_sums *of_outputs = &run->sums;
#if ENGINE_ROUNDS_WEIGHTS
    reduce_sums(g, run, whole, &run->rounded);
    FOR_EACH_SLOT (slot)
        run->rounded.l[slot] += run->sums.l[slot] - run->sums.l[slot]; /* 0, or NaN */
    of_outputs = &run->rounded;
#endif
    invert_sums(&run->sums, inverse);
#if ENGINE_ROUNDS_WEIGHTS
    invert_sums(&run->rounded, inverse);
#endif
    const real scale = kept_scale(&tile->r);
    FOR_EACH_OUTPUT (g, e, slot, d, HEAD_DIM_V_CLASS) {
        run->output[e] *= scale * inverse[slot];
        FOR_EACH_TANGENT (t)
            run->tangent_output[t][e] =
                run->tangent_output[t][e] * (scale * inverse[slot]) - of_outputs->r[t][slot] * run->output[e];
    }
}

static inline bool all_finite(const group *g, const running *run)
{
    bool finite = finite_outputs(g, run->output, HEAD_DIM_V_CLASS);
    FOR_EACH_TANGENT (t)
        finite = finite & finite_outputs(g, run->tangent_output[t], HEAD_DIM_V_CLASS);
    return !group_any(g, !finite);
}

/* Rows of an unrounded [n,B,Hq,M,Dv] array, at its n. */
static inline target full_target(const arguments *a, const query_tile *tile, const int n, __global real *full)
{
    const sequence *s = &tile->s;
    const int dims = a->p->head_dim_v;
    const target to = {0, full + stat_index(a, n, s->batch, s->h, s->first_query + tile->first) * dims, dims,
                       s->queries - tile->first, dims};
    return to;
}

/* Where O or the O' of a tangent goes: to its part, or rounded and, where the call keeps it, unrounded. */
typedef struct {
    target to[2];
    int count;
} destinations;

static inline void add_destination(destinations *all, const target to)
{
    if (all->count == 0)
        all->to[0] = to;
    else
        all->to[1] = to;
    all->count++;
}

static inline destinations output_destinations(const arguments *a, const query_tile *tile)
{
    destinations all;
    all.count = 0;
    if (a->o_parts)
        add_destination(&all, full_target(a, tile, tile->split, a->o_parts));
    else {
        if (a->o)
            add_destination(&all, QUERY_TARGET(a, &tile->s, o, SLOT_O, 0, tile->first, a->p->head_dim_v));
        if (a->o_full)
            add_destination(&all, full_target(a, tile, 0, a->o_full));
    }
    return all;
}

static inline destinations tangent_destinations(const arguments *a, const query_tile *tile, const int t)
{
    const int tangent = a->tangent_first + t;
    destinations all;
    all.count = 0;
    if (a->to_parts)
        add_destination(&all, full_target(a, tile, tile->split * TANGENTS + t, a->to_parts));
    else {
        if (a->to)
            add_destination(&all,
                            QUERY_TARGET(a, &tile->s, to, SLOT_TO, tangent, tile->first, a->p->head_dim_v));
        if (a->to_full)
            add_destination(&all, full_target(a, tile, tangent, a->to_full));
    }
    return all;
}

static inline void store_to(const group *g, const destinations *all, const lanes *output)
{
    for (int n = 0; n < all->count; n++) {
        target to = all->to[0]; /* by constants, so that they need not lie in memory */
        if (n == 1)
            to = all->to[1];
        store_rows(g, &to, output, HEAD_DIM_V_CLASS, 1);
    }
}

static inline void store_outputs(const arguments *a, const group *g, const query_tile *tile,
                                 const running *run)
{
    const destinations output = output_destinations(a, tile);
    store_to(g, &output, run->output);
    FOR_EACH_TANGENT (t) {
        const destinations tangent = tangent_destinations(a, tile, t);
        store_to(g, &tangent, run->tangent_output[t]);
    }
}

/* Writes a number a row to [n,B,Hq,M], at its n. */
static inline void store_stat(const arguments *a, const query_tile *tile, __global real *to, const int n,
                              const ilanes row, const lanes value)
{
    const sequence *s = &tile->s;
    if (to)
        scatter_real(to, stat_index(a, n, s->batch, s->h, s->first_query) + TO_LLANES(row), value,
                     row < s->queries);
}

static inline void store_sums(const arguments *a, const group *g, const query_tile *tile, const running *run)
{
    const bool parts = a->lse_parts != 0;
    FOR_EACH_SLOT (slot) {
        const ilanes row = outer_row(g, slot) + tile->first;
        const lanes log_sum = log(run->sums.l[slot]);
        const lanes lse = run->base[slot] + log_sum;
        /* what lse lost, so that lse + low is m + log l; an empty row has lost nothing */
        const lanes low = run->sums.l[slot] == 0 ? TO_LANES(0) : run->base[slot] - lse + log_sum;
        store_stat(a, tile, parts ? a->lse_parts : a->lse, parts ? tile->split : 0, row, lse);
        store_stat(a, tile, parts ? a->lse_low_parts : a->lse_low, parts ? tile->split : 0, row, low);
        FOR_EACH_TANGENT (t)
            store_stat(a, tile, parts ? a->tlse_parts : a->tlse,
                       parts ? tile->split * TANGENTS + t : a->tangent_first + t, row, run->sums.r[t][slot]);
    }
}

static inline void store(const arguments *a, const group *g, const query_tile *tile, const running *run)
{
    store_outputs(a, g, tile, run);
    if (owns_slots(g))
        store_sums(a, g, tile, run);
}

static inline void attend(const arguments *a, const group *g, const query_tile *tile, const bool careful,
                          running *run)
{
    const range keys = keys_of_part(a, tile);
    start(a, g, tile, run);
#if ENGINE_LOOKS_AHEAD
    if (!careful)
        step_ahead(a, g, tile, keys, run);
    else
#endif
        FOR_EACH_INNER_TILE (g, j0, &tile->r, false, tile->first, keys)
            step(a, g, tile, j0, careful, run);
    let_go(g);
    finish(g, tile, !a->lse_parts, run);
}

/* OUTER queries of one head, and a part of their keys. */
#if ENGINE_IS_CAREFUL_APART
static inline bool attended(const arguments *a, const group *g, const bool careful)
{
    query_tile tile;
    running run;
    take_queries(a, g, &tile);
    attend(a, g, &tile, careful, &run);
    if (!careful && !all_finite(g, &run))
        return false;
    store(a, g, &tile, &run);
    return true;
}

static inline void forward_tile(const arguments *a, const group *g)
{
    const group apart = careful_group(g);
    if (!is_fed(g) || !attended(a, g, false))
        attended(a, &apart, true);
}
#else
static inline void forward_tile(const arguments *a, const group *g)
{
    query_tile tile;
    running run;
    take_queries(a, g, &tile);
    TWICE_IF_NOT_FINITE (careful, all_finite(g, &run))
        attend(a, g, &tile, careful, &run);
    store(a, g, &tile, &run);
}
#endif

__kernel ENGINE_ATTRIBUTES void attention_forward(ATTENTION_PARAMETERS)
{
    ATTENTION_ARGUMENTS;
    FOR_EACH_TILE(forward_tile, &a, outer_tiles(&a, false, params->heads_q) * params->splits);
}
