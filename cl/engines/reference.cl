/*
 * Engine "reference": a tile is one outer row, owned by one work-item that
 * walks INNER inner rows at a time with plain loops. Slow and plain: it is the
 * shortest statement of what an engine's words mean. No algorithm in here.
 *
 *            d -->                     j -->
 *    outer  [ 1 x D ]   inner [ INNER x D ]   scores [ 1 x INNER ]
 */
#ifndef INNER
#define INNER 32 /* inner rows a step */
#endif

#define OUTER 1
#define OUTER_SLOTS 1
#define SCORES INNER
#define OUTPUTS(dim_class) (dim_class)
#define ENGINE_ATTRIBUTES
#define UNROLL_FOR for
#define UNROLL_LIST_FOR for
#define ENGINE_SPLITS_PLAIN_TILES 0
#define ENGINE_ROUNDS_WEIGHTS 0
#define ROUND_WEIGHT(x) (x)

typedef long tile_number;

/* The work-group as a work-item sees it. */
typedef struct {
    tile_number tile; /* which tile of the launch this is */
} group;
#define GROUP(g) const group g = {(long)get_global_id(0)}
#define END_GROUP(g)

#define FOR_EACH_SLOT(slot) for (int slot = 0; slot < 1; slot++)
#define FOR_EACH_SCORE(g, e, slot, inner)                                                                    \
    for (int slot = 0; slot < 1; slot++)                                                                     \
        for (int e = 0, inner = 0; e < INNER; e++, inner++)
#define FOR_EACH_OUTPUT(g, e, slot, d, dim_class)                                                            \
    for (int slot = 0; slot < 1; slot++)                                                                     \
        for (int e = 0, d = 0; e < (dim_class); e++, d++)

static inline ilanes outer_row(const group *g, const int slot) { return 0; }
static inline bool owns_slots(const group *g) { return true; }
/* True for one work-item of the group. */
static inline bool leads_group(const group *g) { return true; }

typedef view held;
static inline void hold(const group *g, const view outer, held *to) { *to = outer; }

/* scores[i][j] = or += sum_d outer[i][d] inner[j][d] */
static inline void multiply_scores(const group *g, lanes *scores, const held *outer, const view *inner,
                                   const bool adds)
{
    for (int j = 0; j < INNER && !adds; j++)
        scores[j] = 0;
    for (int j = 0; j < INNER && j < inner->rows; j++)
        for (int d = 0; d < inner->dims; d++)
            scores[j] = MULTIPLY_ADD(view_at(outer, 0, d), view_at(inner, j, d), scores[j]);
}

typedef struct {
    const lanes *weights;
} operand;
static inline operand hand_over(const group *g, const lanes *scores)
{
    const operand weights = {scores};
    return weights;
}

/* output[i][d] = keep[i] output[i][d] + sum_j weights[i][j] inner[j][d]; keep NULL is 1 */
static inline void multiply_values(const group *g, lanes *output, const int dim_class, const lanes *keep,
                                   const operand weights, const view *inner, const bool careful)
{
    for (int d = 0; d < inner->dims; d++) {
        lanes sum = 0;
        for (int j = 0; j < INNER && j < inner->rows; j++)
            if (!careful || !IS_MARKED(weights.weights[j]))
                sum = MULTIPLY_ADD(weights.weights[j], view_at(inner, j, d), sum);
        output[d] = keep ? MULTIPLY_ADD(output[d], keep[0], sum) : output[d] + sum;
    }
}

static inline void group_barrier(const group *g) {}
static inline void reduce_maximum(const group *g, lanes *slots) {}
static inline void reduce_sum(const group *g, lanes *slots) {}
static inline bool group_any(const group *g, const bool condition) { return condition; }
