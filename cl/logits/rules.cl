/*
 * What happens to one logit, in order: scale, softcap, the caller's function,
 * bias, ALiBi; who attends to whom: position, segments, block mask, mask, a
 * logit or bias of -inf; and dropout. The only place that knows which rules
 * there are. Knows no engine: (query, key) are what the caller says.
 */

/* Some rule may leave a whole tile empty that position does not. */
#define RULES_EMPTY_TILES (RULE_SEGMENTS || RULE_BLOCK_MASK)

/* Some rule may keep a pair apart that position does not, or make a logit -inf to say so. */
#define RULES_MASK_PAIRS (RULE_MASK || RULE_BIAS || RULE_SEGMENTS || RULE_BLOCK_MASK || RULE_LOGIT)

typedef struct {
    sequence s;
    real scale, softcap;
#if RULE_MASK
    byte_pairs mask;
#endif
#if RULE_BIAS
    bias_rule bias;
#endif
#if RULE_SEGMENTS
    segment_rule segments;
#endif
#if RULE_BLOCK_MASK
    block_rule blocks;
#endif
#if RULE_ALIBI
    float alibi;
#endif
#if RULE_LOGIT
    __global const float *logit_data;
#endif
#if RULE_DROPOUT
    dropout_rule dropout;
#endif
} rules;

static inline rules rules_of(const arguments *a, const sequence *s)
{
    rules r;
    r.s = *s;
    r.scale = PARAM_SCALE(a);
    r.softcap = PARAM_SOFTCAP(a);
#if RULE_MASK
    r.mask = mask_locate(a, s);
#endif
#if RULE_BIAS
    r.bias = bias_locate(a, s);
#endif
#if RULE_SEGMENTS
    r.segments = segments_locate(a, s);
#endif
#if RULE_BLOCK_MASK
    r.blocks = block_locate(a, s);
#endif
#if RULE_ALIBI
    r.alibi = a->alibi[s->h];
#endif
#if RULE_LOGIT
    r.logit_data = a->logit_data;
#endif
#if RULE_DROPOUT
    r.dropout = dropout_locate(a, s);
#endif
    return r;
}

/* `edge` is false in tiles where position lets every pair attend. */
static inline pair pair_of(const rules *r, const ilanes query, const ilanes key, const int score,
                           const bool edge)
{
    pair at = {query, key, TO_ILANES(ALL_LANES), score};
    if (edge) {
        at.attends = position_attends(&r->s, query, key);
        at.query = at.attends ? query : TO_ILANES(0);
        at.key = at.attends ? key : TO_ILANES(0);
    }
    return at;
}

/* What block mask and boolean mask say together. */
static inline ilanes masks_attend(const rules *r, const pair *at)
{
    ilanes attends = TO_ILANES(ALL_LANES);
#if RULE_MASK
    attends = mask_attends(&r->mask, at);
#endif
#if RULE_BLOCK_MASK
    const ilanes kind = block_kind(&r->blocks, at);
    attends = (kind != 0) & ((kind == 1) | attends);
#endif
    return attends;
}

/* The logit of a pair from its dot product q.k. */
static inline logit logit_of(const rules *r, const lanes dot, const pair *at)
{
    logit z = {dot * r->scale, TO_LANES(1), TO_LANES(0), at->attends & masks_attend(r, at)};
#if RULE_SEGMENTS
    z.attends = z.attends & segments_attend(&r->segments, at);
#endif
#if RULE_SOFTCAP
    softcap_apply(r->softcap, &z);
#endif
#if RULE_LOGIT
    user_apply(&r->s, r->logit_data, at->query, at->key, &z);
#endif
#if RULE_BIAS
    bias_apply(&r->bias, at, &z);
#endif
#if RULE_ALIBI
    alibi_apply(r->alibi, &r->s, at->query, at->key, &z);
#endif
    return z;
}

/* Z of a pair, what its weight is multiplied by on the way to the values: kept_scale where the pair is kept, else 0. */
static inline ilanes is_kept(const rules *r, const pair *at)
{
#if RULE_DROPOUT
    return dropout_keeps(&r->dropout, at->query, at->key);
#else
    return TO_ILANES(ALL_LANES);
#endif
}
static inline real kept_scale(const rules *r)
{
#if RULE_DROPOUT
    return r->dropout.scale;
#else
    return 1;
#endif
}

/* True if the rules that need memory let no query of [i0, i0 + rows) see a key of [j0, j0 + columns). */
static inline bool tile_is_empty(const rules *r, const int i0, const int rows, const int j0,
                                 const int columns)
{
    bool empty = false;
    const range queries = {max(i0, 0), min(i0 + rows, r->s.queries)};
    const range keys = {max(j0, 0), min(j0 + columns, r->s.keys)};
#if RULE_SEGMENTS
    empty = empty || segments_apart(&r->segments, queries, keys);
#endif
#if RULE_BLOCK_MASK
    empty = empty || blocks_empty(&r->blocks, queries, keys);
#endif
    return empty;
}

/* S' of tangent t (counted from the launch's first) from dot' = q'.k + q.k'. */
static inline lanes logit_tangent(const rules *r, const logit *z, const int t, const lanes dot_tangent,
                                  const pair *at)
{
    lanes tangent = z->slope * (r->scale * dot_tangent);
#if HAS_TBIAS
    tangent += bias_tangent(&r->bias, t, at);
#endif
    return tangent;
}
