/* One logit (or LANES of them) on its way through the rules. */
typedef struct {
    lanes value;    /* y(x), x being the scaled dot product */
    lanes slope;    /* dy/dx */
    lanes curve;    /* d2y/dx2 */
    ilanes attends; /* false: masked out, whatever the value is */
} logit;
