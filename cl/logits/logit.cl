/* One logit (or LANES of them) on its way through the rules. */
typedef struct {
    lanes value;    /* y(x), x being the scaled dot product */
    lanes slope;    /* dy/dx */
    lanes curve;    /* d2y/dx2 */
    ilanes attends; /* false: masked out, whatever the value is */
} logit;

/* S of a pair that attends. -inf is kept for those that do not: a logit of -inf has weight 0, but it is data. */
static inline lanes logit_value(const logit *z)
{
    return z->value < -REAL_MAX ? TO_LANES(-REAL_MAX) : z->value;
}
