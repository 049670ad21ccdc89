/* The caller's logit function y(x), with its first and second derivative. -inf masks out. */
#if RULE_LOGIT
static inline void user_apply(const sequence *s, __global const float *data, const ilanes query,
                              const ilanes key, logit *z)
{
    lanes y, dy, ddy;
    CALL_LOGIT(z->value, s->b, s->h, query, key, data, &y, &dy, &ddy);
    z->attends = z->attends & (y != -INFINITY);
    z->value = y;
    z->curve = ddy * z->slope * z->slope + dy * z->curve;
    z->slope = dy * z->slope;
}
#endif
