/* Boolean mask: nonzero attends. Any axis may be broadcast by a stride of 0. */
#if RULE_MASK
static inline byte_pairs mask_locate(const arguments *a, const sequence *s)
{
    __global const struct axis_strides *stride = &a->p->strides[SLOT_MASK];
    const byte_pairs pairs = {a->mask + pair_offset(stride, s), stride->row, stride->column};
    return pairs;
}

static inline ilanes mask_attends(const byte_pairs *mask, const pair *at)
{
    return byte_of_pair(mask, at->query, at->key, at->score) != 0;
}
#endif
