/* Additive bias and its tangents. -inf masks out; any axis may be broadcast by a stride of 0. */
#if RULE_BIAS
typedef struct {
    bias_pairs bias;
    bias_pairs tangent[TANGENT_ARRAY]; /* counted from the launch's first */
} bias_rule;

static inline bias_pairs bias_locate_in(const arguments *a, const sequence *s, const int slot,
                                        __global const bias_t *tensor, const int tangent)
{
    __global const struct axis_strides *stride = &a->p->strides[slot];
    const bias_pairs pairs = {tensor + tangent * stride->tangent + pair_offset(stride, s), stride->row,
                              stride->column};
    return pairs;
}

static inline bias_rule bias_locate(const arguments *a, const sequence *s)
{
    bias_rule rule;
    rule.bias = bias_locate_in(a, s, SLOT_BIAS, a->bias, 0);
#if HAS_TBIAS
    for (int t = 0; t < TANGENTS; t++)
        rule.tangent[t] = bias_locate_in(a, s, SLOT_TBIAS, a->tbias, a->tangent_first + t);
#endif
    return rule;
}

static inline void bias_apply(const bias_rule *rule, const pair *at, logit *z)
{
    const lanes bias = bias_of_pair(&rule->bias, at->query, at->key, at->score);
    z->attends = z->attends & (bias != -INFINITY);
    z->value += bias;
}

/* B' of tangent t, counted from the launch's first. */
static inline lanes bias_tangent(const bias_rule *rule, const int t, const pair *at)
{
    return bias_of_pair(&rule->tangent[t], at->query, at->key, at->score);
}
#endif
