/* One logit (or LANES of them) on its way through the rules. */
typedef struct {
    lanes value;    /* y(x), x being the scaled dot product */
    lanes slope;    /* dy/dx */
    lanes curve;    /* d2y/dx2 */
    ilanes attends; /* false: masked out, whatever the value is */
} logit;

/* A query and a key, and which score of the tile they are. Where position keeps them apart they are moved to the
 * first pair of the sequence, so that no rule reads memory out of bounds. */
typedef struct {
    ilanes query, key;
    ilanes attends;
    int score;
} pair;

/* A tile of pairs: its first outer and inner row, and how many rows of each kind the sequence has. */
typedef struct {
    bool keys_outer;
    int outer_first, inner_first;
    int outer_rows, inner_rows;
} pair_tile;

/* S of a pair that attends. -inf is kept for those that do not: a logit of -inf has weight 0, but it is data. */
static inline lanes logit_value(const logit *z) { return AT_LEAST(TO_LANES(-REAL_MAX), z->value); }
