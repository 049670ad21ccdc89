/* Additive bias and its tangents. -inf masks out; any axis may be broadcast by a stride of 0. */
#if RULE_BIAS
typedef struct {
    __global const bias_t *base;
    __global const bias_t *tangent_base;
    struct axis_strides stride, tangent_stride;
} bias_rule;

static inline bias_rule bias_locate(const arguments *a, const sequence *s)
{
    bias_rule rule;
    rule.stride = a->p->strides[SLOT_BIAS];
    rule.tangent_stride = a->p->strides[SLOT_TBIAS];
    rule.base = a->bias + pair_offset(&a->p->strides[SLOT_BIAS], s);
    rule.tangent_base = a->tbias + a->tangent_first * rule.tangent_stride.tangent +
                        pair_offset(&a->p->strides[SLOT_TBIAS], s);
    return rule;
}

static inline void bias_apply(const bias_rule *rule, const ilanes query, const ilanes key, logit *z)
{
    const lanes bias =
        gather_bias(rule->base, TO_LLANES(query) * rule->stride.row + TO_LLANES(key) * rule->stride.column);
    z->attends = z->attends & (bias != -INFINITY);
    z->value += bias;
}

/* B' of tangent t, counted from the launch's first. */
static inline lanes bias_tangent(const bias_rule *rule, const int t, const ilanes query, const ilanes key)
{
    return gather_bias(rule->tangent_base + t * rule->tangent_stride.tangent,
                       TO_LLANES(query) * rule->tangent_stride.row +
                           TO_LLANES(key) * rule->tangent_stride.column);
}
#endif
