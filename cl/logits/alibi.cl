/* ALiBi: S gains -slope |i + N - M - j|, with the sequence's own lengths. */
#if RULE_ALIBI
static inline void alibi_apply(const float slope, const sequence *s, const ilanes query, const ilanes key,
                               logit *z)
{
    z->value -= slope * TO_LANES(abs(query + (s->keys - s->queries) - key));
}
#endif
