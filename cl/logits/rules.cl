/*
 * What happens to one logit, in order: scale, softcap, bias; and who attends
 * to whom: position, mask, a bias of -inf. The only place that knows which
 * rules there are. Knows no engine: (query, key) are what the caller says.
 */

typedef struct {
    sequence s;
    real scale, softcap;
#if RULE_MASK
    mask_rule mask;
#endif
#if RULE_BIAS
    bias_rule bias;
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
    return r;
}

/* A query and a key. Where position keeps them apart they are moved to the first pair of the sequence, so that
 * no rule reads memory out of bounds. */
typedef struct {
    ilanes query, key;
    ilanes attends;
} pair;

/* `edge` is false in tiles where position lets every pair attend. */
static inline pair pair_of(const rules *r, const ilanes query, const ilanes key, const bool edge)
{
    pair at = {query, key, ALL_LANES};
    if (edge) {
        at.attends = position_attends(&r->s, query, key);
        at.query = at.attends ? query : TO_ILANES(0);
        at.key = at.attends ? key : TO_ILANES(0);
    }
    return at;
}

/* The logit of a pair from its dot product q.k. */
static inline logit logit_of(const rules *r, const lanes dot, const pair *at)
{
    logit z = {dot * r->scale, TO_LANES(1), TO_LANES(0), at->attends};
#if RULE_SOFTCAP
    softcap_apply(r->softcap, &z);
#endif
#if RULE_MASK
    z.attends = z.attends & mask_attends(&r->mask, at->query, at->key);
#endif
#if RULE_BIAS
    bias_apply(&r->bias, at->query, at->key, &z);
#endif
    return z;
}

/* S' of tangent t (counted from the launch's first) from dot' = q'.k + q.k'. */
static inline lanes logit_tangent(const rules *r, const logit *z, const int t, const lanes dot_tangent,
                                  const pair *at)
{
    lanes tangent = z->slope * (r->scale * dot_tangent);
#if HAS_TBIAS
    tangent += bias_tangent(&r->bias, t, at->query, at->key);
#endif
    return tangent;
}
