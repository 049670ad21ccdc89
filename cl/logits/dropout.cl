/*
 * Dropout: Z of a pair, 1 / (1 - p) or 0, from Philox4x32-10 (Salmon et al.,
 * "Parallel random numbers: as easy as 1, 2, 3", 2011). A function of the
 * position alone: the same in every kernel, on every device, with every tile.
 *     key     = (seed low, seed high)
 *     counter = (offset low, offset high + b Hq + h, i, j >> 2), output word j & 3
 */
#if RULE_DROPOUT
typedef struct {
    uint key[2];
    uint counter[2];
    uint threshold;
    real scale;
} dropout_rule;

static inline dropout_rule dropout_locate(const arguments *a, const sequence *s)
{
    __global const struct attention_params *p = a->p;
    const dropout_rule rule = {{(uint)p->dropout_seed, (uint)(p->dropout_seed >> 32)},
                               {(uint)p->dropout_offset,
                                (uint)(p->dropout_offset >> 32) + (uint)s->b * (uint)p->heads_q + (uint)s->h},
                               p->dropout_threshold,
                               PARAM_DROPOUT_SCALE(a)};
    return rule;
}

/* Whether a pair is kept. */
static inline ilanes dropout_keeps(const dropout_rule *rule, const ilanes query, const ilanes key)
{
    ulanes x0 = TO_ULANES(rule->counter[0]), x1 = TO_ULANES(rule->counter[1]);
    ulanes x2 = TO_ULANES(query), x3 = TO_ULANES(key >> 2);
    uint k0 = rule->key[0], k1 = rule->key[1];
    for (int round = 0; round < 10; round++) {
        const ulanes high0 = mul_hi(TO_ULANES(0xD2511F53u), x0), low0 = 0xD2511F53u * x0;
        const ulanes high1 = mul_hi(TO_ULANES(0xCD9E8D57u), x2), low1 = 0xCD9E8D57u * x2;
        x0 = high1 ^ x1 ^ k0;
        x1 = low1;
        x2 = high0 ^ x3 ^ k1;
        x3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    const ulanes word = TO_ULANES(key & 3);
    const ulanes low_pair = word == 0u ? x0 : x1, high_pair = word == 2u ? x2 : x3;
    const ulanes drawn = word < 2u ? low_pair : high_pair;
    return TO_ILANES(drawn >= rule->threshold);
}
#endif
