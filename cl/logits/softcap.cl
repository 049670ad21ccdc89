/* Softcap: y = c tanh(x / c), with its derivatives. */
#if RULE_SOFTCAP
static inline void softcap_apply(const lanes cap, logit *z)
{
    const lanes u = z->value / cap;
    const lanes t = tanh(u);
    /* 1 - tanh^2 = 4 a / (1 + a)^2 with a = exp(-2 |u|): no cancellation where tanh is near 1 */
    const lanes a = EXP(-2 * fabs(u));
    const lanes slope = 4 * a / ((1 + a) * (1 + a));
    z->value = cap * t;
    z->slope = slope;
    z->curve = -2 * t * slope / cap;
}
#endif
