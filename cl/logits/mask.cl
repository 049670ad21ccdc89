/* Boolean mask: nonzero attends. Any axis may be broadcast by a stride of 0. */
#if RULE_MASK
typedef struct {
    __global const uchar *base;
    long row, column;
} mask_rule;

static inline mask_rule mask_locate(const arguments *a, const sequence *s)
{
    __global const struct axis_strides *stride = &a->p->strides[SLOT_MASK];
    const mask_rule rule = {a->mask + pair_offset(stride, s), stride->row, stride->column};
    return rule;
}

static inline ilanes mask_attends(const mask_rule *rule, const ilanes query, const ilanes key)
{
    return gather_byte(rule->base, TO_LLANES(query) * rule->row + TO_LLANES(key) * rule->column) != 0;
}
#endif
