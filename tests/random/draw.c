/* Random problems. */
#include "draw.h"

#include <math.h>

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof *(array)))
#define PICK(dice, array) ((array)[below(dice, COUNT_OF(array))])

/* Logits of all heads and batches: what the oracle is given to do. */
#define MOST_PAIRS 30000

/* ---- dice: xorshift64* ---- */

struct dice {
    uint64_t state;
};

static uint64_t roll(struct dice *dice)
{
    dice->state ^= dice->state >> 12;
    dice->state ^= dice->state << 25;
    dice->state ^= dice->state >> 27;
    return dice->state * UINT64_C(0x2545f4914f6cdd1d);
}

static struct dice dice_of(uint64_t seed, uint64_t stream, int64_t n)
{
    const uint64_t mixed = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) ^
                           ((uint64_t)n * 2 + stream + 1) * UINT64_C(0xd1342543de82ef95);
    struct dice dice = {mixed ? mixed : 1};
    for (int i = 0; i < 8; i++)
        roll(&dice);
    return dice;
}

static int64_t below(struct dice *dice, int64_t end) { return (int64_t)(roll(dice) >> 33) % end; }

static bool in_100(struct dice *dice, int64_t times) { return below(dice, 100) < times; }

/* ---- programs ---- */

static bool has_tangents(clattn_operation operation)
{
    return operation == CLATTN_JVP || operation == CLATTN_HVP;
}

static bool has_gradients(clattn_operation operation)
{
    return operation == CLATTN_VJP || operation == CLATTN_HVP;
}

static void draw_types(struct dice *dice, clattn_problem *p)
{
    static const clattn_dtype types[] = {CLATTN_F32, CLATTN_F32,  CLATTN_F32,  CLATTN_F16,
                                         CLATTN_F16, CLATTN_BF16, CLATTN_BF16, CLATTN_F64};
    p->dtype = PICK(dice, types);
    p->out_dtype = in_100(dice, 30) ? CLATTN_F32 : p->dtype;
    p->bias_dtype = in_100(dice, 40) ? CLATTN_F32 : p->dtype;
}

static void draw_head_dims(struct dice *dice, clattn_problem *p)
{
    static const int64_t classes[][2] = {{16, 16}, {16, 16}, {16, 16}, {16, 32},
                                         {32, 16}, {32, 32}, {64, 64}};
    const int n = (int)below(dice, COUNT_OF(classes));
    p->head_dim = classes[n][0];
    p->head_dim_v = classes[n][1];
}

static void draw_rules(struct dice *dice, struct recipe *recipe)
{
    clattn_problem *p = &recipe->problem;
    p->softcap = in_100(dice, 35);
    p->dropout = in_100(dice, 30) ? 0.5 : 0;
    p->present[CLATTN_MASK] = in_100(dice, 40);
    p->present[CLATTN_BIAS] = in_100(dice, 50);
    p->present[CLATTN_Q_SEGMENTS] = p->present[CLATTN_KV_SEGMENTS] = in_100(dice, 25);
    p->present[CLATTN_BLOCK_MASK] = in_100(dice, 30);
    p->present[CLATTN_ALIBI] = in_100(dice, 30);
    recipe_set_logit(recipe, in_100(dice, 20));
    /* rows and columns: the gradient of the bias has a program for each way to sum */
    recipe->bias_broadcast = (unsigned)below(dice, 4) * 4;
}

static void draw_tangents(struct dice *dice, struct recipe *recipe)
{
    clattn_problem *p = &recipe->problem;
    if (!has_tangents(recipe->operation))
        return;
    p->tangents = in_100(dice, 50) ? 1 : 2 + below(dice, 2);
    p->present[CLATTN_TQ] = in_100(dice, 80);
    p->present[CLATTN_TK] = in_100(dice, 80);
    p->present[CLATTN_TV] = in_100(dice, 80);
    p->present[CLATTN_TBIAS] = p->present[CLATTN_BIAS] && in_100(dice, 70);
    p->present[CLATTN_TDO] = recipe->operation == CLATTN_HVP && in_100(dice, 70);
}

void draw_program(uint64_t seed, int64_t n, const char *engine, struct recipe *recipe)
{
    struct dice dice = dice_of(seed, 0, n);
    recipe_init(recipe, (clattn_operation)(n % CLATTN_OPERATION_COUNT), &(clattn_sizes){1, 1, 1, 1, 1, 1, 1});
    recipe->problem.engine = engine;
    draw_types(&dice, &recipe->problem);
    draw_head_dims(&dice, &recipe->problem);
    draw_rules(&dice, recipe);
    draw_tangents(&dice, recipe);
}

/* ---- arguments: sizes ---- */

/* Often next to the edge of a tile, or 0, or 1. */
static int64_t draw_rows(struct dice *dice)
{
    static const int64_t edges[] = {8, 16, 32, 64, 96, 128};
    if (in_100(dice, 10))
        return in_100(dice, 75);
    if (in_100(dice, 40))
        return PICK(dice, edges) - 1 + below(dice, 3);
    return below(dice, in_100(dice, 70) ? 50 : 131);
}

/* Within the class of head dims that a bound stands for. */
static int64_t draw_head_dim(struct dice *dice, int64_t bound)
{
    const int64_t least = bound > 16 ? bound / 2 + 1 : 1;
    return in_100(dice, 40) ? bound : least + below(dice, bound - least + 1);
}

static void draw_sizes(struct dice *dice, clattn_problem *p)
{
    p->batch = in_100(dice, 2) ? 0 : 1 + below(dice, 3);
    p->heads_kv = in_100(dice, 1) ? 0 : 1 + below(dice, 2);
    p->heads_q = p->heads_kv * (1 + below(dice, 3));
    p->queries = draw_rows(dice);
    p->keys = draw_rows(dice);
    while (p->batch > 1 && p->batch * p->heads_q * p->queries * p->keys > MOST_PAIRS)
        p->batch--;
    if (p->heads_q * p->queries * p->keys > MOST_PAIRS)
        p->heads_q = p->heads_kv = 1;
    p->head_dim = draw_head_dim(dice, p->head_dim);
    p->head_dim_v = draw_head_dim(dice, p->head_dim_v);
}

static void draw_layout(struct dice *dice, struct recipe *recipe)
{
    recipe->layout = (enum recipe_layout)below(dice, 3);
    recipe->row_gap = in_100(dice, 30) ? 1 + below(dice, 9) : 0;
}

/* ---- arguments: options ---- */

static void draw_scale(struct dice *dice, clattn_problem *p)
{
    static const double scales[] = {0, -0.37, 1, 3};
    p->scale = 1 / sqrt((double)p->head_dim);
    if (in_100(dice, 35))
        p->scale = PICK(dice, scales);
    /* f64 has no bar for ill-conditioned problems */
    if (p->dtype != CLATTN_F64 && in_100(dice, 6))
        p->scale = in_100(dice, 50) ? 75 : -75;
    if (p->softcap > 0) {
        static const double caps[] = {0.5, 1.5, 1.5, 5, 30, 1000};
        p->softcap = PICK(dice, caps);
    }
}

static int64_t draw_window_side(struct dice *dice)
{
    static const int64_t sides[] = {0, 1, 3, 15, 16, 31, 32, 33, 70, 1000000};
    return in_100(dice, 65) ? -1 : PICK(dice, sides);
}

static void draw_position(struct dice *dice, struct recipe *recipe)
{
    clattn_problem *p = &recipe->problem;
    if (in_100(dice, 50))
        p->causal = in_100(dice, 50) ? CLATTN_CAUSAL_TOP_LEFT : CLATTN_CAUSAL_BOTTOM_RIGHT;
    p->window_left = draw_window_side(dice);
    p->window_right = draw_window_side(dice);
    recipe->lengths = (enum recipe_lengths)below(dice, 4);
    const int64_t kind = below(dice, 100);
    p->present[CLATTN_KV_LENGTHS] = kind < 25;
    p->present[CLATTN_CU_SEQLENS_Q] = p->present[CLATTN_CU_SEQLENS_K] = kind >= 75;
}

static void draw_masks(struct dice *dice, struct recipe *recipe)
{
    static const int64_t blocks[] = {1, 7, 8, 16, 32, 33, 64, 200};
    recipe->mask_broadcast = in_100(dice, 40) ? 0 : (unsigned)below(dice, 16);
    recipe->bias_broadcast += (unsigned)below(dice, 4);
    recipe->block_broadcast = (unsigned)below(dice, 4);
    recipe->problem.block_rows = PICK(dice, blocks);
    recipe->problem.block_columns = PICK(dice, blocks);
    recipe->sorted_segments = in_100(dice, 60);
}

static void draw_dropout(struct dice *dice, clattn_problem *p)
{
    static const double chances[] = {1e-11, 0.1, 0.3, 0.5, 0.9};
    if (p->dropout == 0)
        return;
    p->dropout = PICK(dice, chances);
    p->dropout_seed = roll(dice);
    p->dropout_offset = roll(dice) | (in_100(dice, 30) ? UINT64_C(0xffffffff00000000) : 0);
}

/* ---- arguments: tensors ---- */

static void draw_inputs(struct dice *dice, struct recipe *recipe)
{
    bool *present = recipe->problem.present;
    present[CLATTN_SINK] = in_100(dice, 30);
    present[CLATTN_TSINK] = has_tangents(recipe->operation) && in_100(dice, 70);
    present[CLATTN_DLSE] = has_gradients(recipe->operation) && in_100(dice, 60);
    present[CLATTN_TDLSE] = recipe->operation == CLATTN_HVP && in_100(dice, 60);
}

static void draw_results(struct dice *dice, struct recipe *recipe)
{
    bool *present = recipe->problem.present;
    const bool gradients = has_gradients(recipe->operation), second = recipe->operation == CLATTN_HVP;
    present[CLATTN_LSE_LOW] = present[CLATTN_DBIAS] = present[CLATTN_DSINK] = true;
    present[CLATTN_TDBIAS] = present[CLATTN_TDSINK] = true;
    for (int t = CLATTN_O; t < CLATTN_TENSOR_COUNT; t++)
        present[t] = present[t] && in_100(dice, 85);
    present[CLATTN_DBIAS] = present[CLATTN_DBIAS] && gradients;
    present[CLATTN_DSINK] = present[CLATTN_DSINK] && gradients;
    present[CLATTN_TDBIAS] = present[CLATTN_TDBIAS] && second;
    present[CLATTN_TDSINK] = present[CLATTN_TDSINK] && second;
}

/* Rounded results of the forward call would cost the gradients their accuracy. */
static void draw_given(struct dice *dice, struct recipe *recipe)
{
    clattn_problem *p = &recipe->problem;
    const bool rounded = p->out_dtype == CLATTN_F16 || p->out_dtype == CLATTN_BF16;
    p->forward_given = has_gradients(recipe->operation) && !rounded && in_100(dice, 20);
    if (!p->forward_given)
        return;
    p->present[CLATTN_O] = p->present[CLATTN_LSE] = p->present[CLATTN_LSE_LOW] = true;
    p->present[CLATTN_TO] = p->present[CLATTN_TLSE] = recipe->operation == CLATTN_HVP;
}

/* ---- arguments: data ---- */

static bool is_in_problems_type(clattn_tensor tensor)
{
    return tensor == CLATTN_Q || tensor == CLATTN_K || tensor == CLATTN_V || tensor == CLATTN_TQ ||
           tensor == CLATTN_TK || tensor == CLATTN_TV || tensor == CLATTN_DO || tensor == CLATTN_TDO;
}

static bool can_change(const struct recipe *recipe, enum recipe_data data, clattn_tensor tensor)
{
    switch (data) {
    case DATA_NAN:
    case DATA_INFINITY:
        return is_in_problems_type(tensor) || tensor == CLATTN_BIAS || tensor == CLATTN_TBIAS;
    case DATA_LARGE:
        return is_in_problems_type(tensor) && recipe->problem.dtype != CLATTN_F64;
    case DATA_NEAR_F16_MAX:
        return is_in_problems_type(tensor) && recipe->problem.dtype == CLATTN_F16;
    case DATA_LOW_ROWS:
        return tensor == CLATTN_BIAS && recipe->problem.dtype != CLATTN_F64;
    case DATA_MASKED_OUT:
        return tensor == CLATTN_BIAS || tensor == CLATTN_SINK;
    case DATA_NOTHING_LEFT:
        return tensor == CLATTN_MASK;
    default:
        return true;
    }
}

static void draw_data(struct dice *dice, struct recipe *recipe)
{
    recipe->seed = roll(dice);
    if (in_100(dice, 45))
        return;
    recipe->data = (enum recipe_data)below(dice, DATA_KIND_COUNT);
    for (int tries = 0; tries < 200; tries++) {
        recipe->changed = (clattn_tensor)below(dice, CLATTN_O);
        if (recipe->problem.present[recipe->changed] && can_change(recipe, recipe->data, recipe->changed))
            return;
    }
    recipe->data = DATA_NORMAL;
}

void draw_arguments(uint64_t seed, int64_t n, struct recipe *recipe)
{
    struct dice dice = dice_of(seed, 1, n);
    draw_sizes(&dice, &recipe->problem);
    draw_layout(&dice, recipe);
    draw_scale(&dice, &recipe->problem);
    draw_position(&dice, recipe);
    draw_masks(&dice, recipe);
    draw_dropout(&dice, &recipe->problem);
    draw_inputs(&dice, recipe);
    draw_results(&dice, recipe);
    draw_given(&dice, recipe);
    draw_data(&dice, recipe);
    recipe_repair(recipe);
}
