/*
 * What each operation launches. Knows algorithms by their kernels' names and
 * the facts that are compiled in; knows no engine.
 */
#include "operations.h"

#include "common/tensor_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"
#include "tensor.h"

/* Room for the maps of Q, K, V and their tangents. */
#define MAP_WORDS (6 * TENSOR_MAP_WORDS)

/* More tangents than this share a pass only in groups: each adds an output accumulator. */
#define TANGENTS_A_PASS 8

/* Products of two matrices, by the head dim they run over. */
struct products {
    double head_dim, head_dim_v;
};

static struct products count_products(clattn_operation operation, double tangents)
{
    switch (operation) {
    case CLATTN_FORWARD:
        return (struct products){1, 1};
    case CLATTN_JVP:
        return (struct products){1 + 2 * tangents, 1 + 2 * tangents};
    case CLATTN_VJP:
        return (struct products){3, 2};
    default:
        return (struct products){3 + 6 * tangents, 2 + 4 * tangents};
    }
}

double clattn_operation_flops(const clattn_problem *p, clattn_operation operation)
{
    const struct products products = count_products(operation, (double)p->tangents);
    const double pairs = (double)p->batch * (double)p->heads_q * (double)p->queries * (double)p->keys;
    const double dims = products.head_dim * (double)p->head_dim + products.head_dim_v * (double)p->head_dim_v;
    return 2 * pairs * dims * (p->causal == CLATTN_CAUSAL_NONE ? 1 : 0.5);
}

/* The facts that are compiled into every program of a problem; docs/programs.md lists them. */
static void define_problem(struct clattn_program_spec *spec, const clattn_problem *p)
{
    const bool bias = p->present[CLATTN_BIAS];
    clattn_spec_define(spec, "IN_TYPE", p->dtype);
    clattn_spec_define(spec, "OUT_TYPE", p->out_dtype);
    clattn_spec_define(spec, "BIAS_TYPE", bias ? (long)p->bias_dtype : (long)CLATTN_F32);
    clattn_spec_define(spec, "RULE_SOFTCAP", p->softcap > 0);
    clattn_spec_define(spec, "RULE_MASK", p->present[CLATTN_MASK]);
    clattn_spec_define(spec, "RULE_BIAS", bias);
    clattn_spec_define(spec, "RULE_SEGMENTS", p->present[CLATTN_Q_SEGMENTS]);
    clattn_spec_define(spec, "RULE_BLOCK_MASK", p->present[CLATTN_BLOCK_MASK]);
    clattn_spec_define(spec, "RULE_ALIBI", p->present[CLATTN_ALIBI]);
    clattn_spec_define(spec, "RULE_LOGIT", p->logit != NULL);
    clattn_spec_define(spec, "RULE_DROPOUT", p->dropout > 0);
}

static void define_tangents(struct clattn_program_spec *spec, const clattn_problem *p, int tangents)
{
    static const struct {
        const char *name;
        clattn_tensor tensor;
    } flags[] = {{"HAS_TQ", CLATTN_TQ},
                 {"HAS_TK", CLATTN_TK},
                 {"HAS_TV", CLATTN_TV},
                 {"HAS_TBIAS", CLATTN_TBIAS},
                 {"HAS_TDO", CLATTN_TDO}};
    clattn_spec_define(spec, "TANGENTS", tangents);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        clattn_spec_define(spec, flags[i].name, tangents && p->present[flags[i].tensor]);
}

static void define_engine(struct clattn_program_spec *spec, const struct clattn_engine *engine,
                          const struct clattn_tile *tile)
{
    clattn_spec_define(spec, "HEAD_DIM_CLASS", tile->head_dim_class);
    clattn_spec_define(spec, "HEAD_DIM_V_CLASS", tile->head_dim_v_class);
    if (engine->loads_by_maps)
        clattn_spec_define(spec, "LOADS_BY_MAPS", 1);
    engine->define(spec, tile);
}

static void add_source_list(struct clattn_program_spec *spec, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        clattn_spec_add_source(spec, names[i]);
}

/* Numbers and tensors, the caller's logit function, the engine's lanes, the rules, the engine's words; the
 * algorithm follows. */
static void add_sources(struct clattn_program_spec *spec, const struct clattn_engine *engine,
                        const char *logit)
{
    static const char *const common[] = {"common/params.h", "common/types.cl", "common/tensors.cl", NULL};
    static const char *const rules[] = {"logits/logit.cl",    "logits/position.cl",   "logits/softcap.cl",
                                        "logits/user.cl",     "logits/mask.cl",       "logits/bias.cl",
                                        "logits/segments.cl", "logits/block_mask.cl", "logits/alibi.cl",
                                        "logits/dropout.cl",  "logits/rules.cl",      NULL};
    add_source_list(spec, common);
    spec->logit = logit;
    if (logit)
        clattn_spec_add_source(spec, CLATTN_LOGIT_SOURCE);
    spec->is_ptx_for_sm_90a = engine->is_ptx_for_sm_90a;
    add_source_list(spec, engine->lanes);
    add_source_list(spec, rules);
    add_source_list(spec, engine->sources);
    clattn_spec_add_source(spec, "logits/staging.cl");
    clattn_spec_add_source(spec, "attention/tiles.cl");
}

/* A program that an operation launches kernels of, and how it cuts its rows up. */
struct pass {
    struct clattn_program_spec spec;
    struct clattn_tile tile;
    cl_program program;
    const char *note; /* what its build said to its speed */
};

/* Chooses the tile and starts the spec; the caller adds the algorithm's sources and facts, and builds. */
static clattn_status begin_pass(const struct clattn_plan *plan, int tangents, int held_outputs,
                                struct pass *pass)
{
    const struct clattn_tile_query query = {&plan->context->device, &plan->problem, held_outputs};
    *pass = (struct pass){.program = NULL};
    if (!plan->engine->choose_tile(&query, &pass->tile))
        return clattn_fail(CLATTN_UNSUPPORTED, "engine %s: no tile fits %s", plan->engine->name,
                           plan->context->device.name);
    add_sources(&pass->spec, plan->engine, plan->problem.logit);
    define_problem(&pass->spec, &plan->problem);
    define_tangents(&pass->spec, &plan->problem, tangents);
    define_engine(&pass->spec, plan->engine, &pass->tile);
    return CLATTN_SUCCESS;
}

static clattn_status build_pass(const struct clattn_plan *plan, struct pass *pass)
{
    return clattn_program_get(plan->context, &pass->spec, &pass->program, &pass->note);
}

static void take_note(struct clattn_plan *plan, const struct pass *pass)
{
    const size_t used = strlen(plan->reason);
    if (*pass->note && !strstr(plan->reason, pass->note))
        snprintf(plan->reason + used, sizeof plan->reason - used, "%s%s", used ? "; " : "", pass->note);
}

/* local 0 is the driver's choice; on a CPU it is 1, because a driver that compiles a kernel for each size of
 * work-group (PoCL) would do so again and again. */
static clattn_status make_launch(const struct clattn_plan *plan, const struct pass *pass, const char *kernel,
                                 int64_t global, size_t local, int tangent_first,
                                 struct clattn_launch *launch)
{
    const size_t chosen = local == 0 && plan->context->device.is_cpu ? 1 : local;
    cl_int error;
    *launch =
        (struct clattn_launch){.global = (size_t)global, .local = chosen, .tangent_first = tangent_first};
    launch->kernel = clCreateKernel(pass->program, kernel, &error);
    return clattn_from_cl(error, "clCreateKernel");
}

/* Appends a launch; none when there is nothing to do. */
static clattn_status add_launch(struct clattn_plan *plan, const struct pass *pass, const char *kernel,
                                int64_t global, size_t local, int tangent_first)
{
    if (global == 0)
        return CLATTN_SUCCESS;
    struct clattn_launch *grown =
        realloc(plan->launches, ((size_t)plan->launch_count + 1) * sizeof *plan->launches);
    if (!grown)
        return clattn_fail(CLATTN_OUT_OF_MEMORY, "host memory for a launch");
    plan->launches = grown;
    CLATTN_TRY(make_launch(plan, pass, kernel, global, local, tangent_first, &grown[plan->launch_count]));
    plan->launch_count++;
    return CLATTN_SUCCESS;
}

/* Work-items of one tile. */
static int tile_items(const struct pass *pass)
{
    const int items = pass->tile.items_x * pass->tile.items_y;
    return items ? items : 1;
}

/* A launch of the engine's work-groups over tiles. */
static clattn_status add_tiles(struct clattn_plan *plan, const struct pass *pass, const char *kernel,
                               int64_t tiles, int tangent_first)
{
    const size_t local = (size_t)(pass->tile.items_x * pass->tile.items_y);
    const int64_t groups =
        pass->tile.most_groups && pass->tile.most_groups < tiles ? pass->tile.most_groups : tiles;
    return add_launch(plan, pass, kernel, groups * tile_items(pass), local, tangent_first);
}

static int64_t tiles_over(int64_t rows, int tile) { return (rows + tile - 1) / tile; }

static bool is_packed(const clattn_problem *p) { return p->present[CLATTN_CU_SEQLENS_Q]; }

static int64_t batch_stored(const clattn_problem *p) { return is_packed(p) ? 1 : p->batch; }

/* Query rows of all heads: elements of [B,Hq,M]. */
static int64_t query_rows(const clattn_problem *p) { return batch_stored(p) * p->heads_q * p->queries; }

/* Outer tiles of a launch, over rows of queries or of keys. In a packed batch each sequence ends with a tile of its
 * own, and so do the rows before the first and behind the last: as many as there can be, see tiles.cl. */
static int64_t outer_tiles(const clattn_problem *p, int64_t rows, int64_t heads, int tile)
{
    if (is_packed(p))
        return rows == 0 ? 0 : heads * (tiles_over(rows, tile) + p->batch + 2);
    return p->batch * heads * tiles_over(rows, tile);
}

/* Gives a slot room in the workspace. Slots hold elements of the row type. */
static void add_scratch(struct clattn_plan *plan, int slot, int64_t elements)
{
    static const uint64_t alignment = 128;
    const uint64_t bytes = (uint64_t)elements * (plan->problem.dtype == CLATTN_F64 ? 8 : 4);
    plan->scratch_at[slot] = (int64_t)plan->workspace_bytes;
    plan->workspace_bytes += (bytes + alignment - 1) / alignment * alignment;
}

/* ---- forward, with tangents ---- */

static clattn_status begin_forward_pass(const struct clattn_plan *plan, int tangents, struct pass *pass)
{
    return begin_pass(plan, tangents, 1 + tangents, pass);
}

/* Parts of the keys when tiles of queries alone leave compute units idle: enough for a few work-groups a unit, each
 * with a few steps to make. */
static int choose_splits(const struct clattn_plan *plan, const struct clattn_tile *tile, int64_t tiles)
{
    static const int64_t groups_a_unit = 4, steps_a_split = 4, most = 64;
    const int64_t units = plan->context->device.compute_units;
    if (tiles == 0 || tiles >= 2 * units)
        return 1;
    int64_t splits = (groups_a_unit * units + tiles - 1) / tiles;
    const int64_t longest = tiles_over(plan->problem.keys, tile->inner) / steps_a_split;
    splits = splits < longest ? splits : longest;
    splits = splits < most ? splits : most;
    return splits > 1 ? (int)splits : 1;
}

/* The passes of a plan split alike: what the first decides holds for all. */
static void split_keys(struct clattn_plan *plan, const struct clattn_tile *tile, int64_t tiles, int tangents)
{
    const clattn_problem *p = &plan->problem;
    const int64_t rows = query_rows(p);
    plan->splits = choose_splits(plan, tile, tiles);
    if (plan->splits == 1)
        return;
    add_scratch(plan, SLOT_O_PARTS, plan->splits * rows * p->head_dim_v);
    add_scratch(plan, SLOT_LSE_PARTS, plan->splits * rows);
    add_scratch(plan, SLOT_LSE_LOW_PARTS, plan->splits * rows);
    if (tangents) {
        add_scratch(plan, SLOT_TO_PARTS, plan->splits * tangents * rows * p->head_dim_v);
        add_scratch(plan, SLOT_TLSE_PARTS, plan->splits * tangents * rows);
    }
}

/* Tangents of the next pass: as many of those left as the engine has a tile for. */
static int tangents_of_pass(const struct clattn_plan *plan, int left)
{
    int tangents = left < TANGENTS_A_PASS ? left : TANGENTS_A_PASS;
    struct clattn_tile unused;
    while (tangents > 1 &&
           !plan->engine->choose_tile(
               &(struct clattn_tile_query){&plan->context->device, &plan->problem, 1 + tangents}, &unused))
        tangents--;
    return tangents;
}

/* One pass over the keys for some tangents. */
static clattn_status plan_forward_pass(struct clattn_plan *plan, int tangent_first, int tangents)
{
    const clattn_problem *p = &plan->problem;
    struct pass pass;
    CLATTN_TRY(begin_forward_pass(plan, tangents, &pass));
    clattn_spec_add_source(&pass.spec, "attention/forward.cl");
    clattn_spec_add_source(&pass.spec, "attention/combine.cl");
    CLATTN_TRY(build_pass(plan, &pass));
    take_note(plan, &pass);
    plan->tile = pass.tile;
    const int64_t tiles = outer_tiles(p, p->queries, p->heads_q, pass.tile.outer);
    if (tangent_first == 0) {
        split_keys(plan, &pass.tile, tiles, tangents);
        if (plan->engine->loads_by_maps)
            add_scratch(plan, SLOT_TENSOR_MAPS, MAP_WORDS);
    }
    CLATTN_TRY(add_tiles(plan, &pass, "attention_forward", tiles * plan->splits, tangent_first));
    if (plan->splits == 1)
        return CLATTN_SUCCESS;
    return add_launch(plan, &pass, "attention_combine", query_rows(p), 0, tangent_first);
}

static clattn_status plan_forward(struct clattn_plan *plan, int tangents)
{
    int first = 0;
    do {
        const int now = tangents_of_pass(plan, tangents - first);
        CLATTN_TRY(plan_forward_pass(plan, first, now));
        first += now;
    } while (first < tangents);
    return CLATTN_SUCCESS;
}

clattn_status clattn_plan_counting(const struct clattn_plan *plan, struct clattn_launch *launch,
                                   int64_t *tiles)
{
    const clattn_problem *p = &plan->problem;
    const int tangents = USED_BY(plan->operation) & USED_BY_TANGENTS ? (int)p->tangents : 0;
    struct pass pass;
    CLATTN_TRY(begin_forward_pass(plan, tangents_of_pass(plan, tangents), &pass));
    clattn_spec_add_source(&pass.spec, "attention/count.cl");
    CLATTN_TRY(build_pass(plan, &pass));
    *tiles = outer_tiles(p, p->queries, p->heads_q, pass.tile.outer);
    return make_launch(plan, &pass, "attention_count_tiles", *tiles * tile_items(&pass),
                       (size_t)(pass.tile.items_x * pass.tile.items_y), 0, launch);
}

/* ---- backward, with tangents ---- */

static bool wants(const struct clattn_plan *plan, clattn_tensor first, clattn_tensor second)
{
    return plan->problem.present[first] || plan->problem.present[second];
}

static bool wants_bias_gradient(const struct clattn_plan *plan)
{
    return wants(plan, CLATTN_DBIAS, CLATTN_TDBIAS);
}

/* The values of BIAS_GRADIENT in bias_gradient.cl. */
enum bias_gradient {
    BY_PAIRS,
    BY_QUERIES,
    BY_KEYS
};

struct bias_shape {
    int64_t batches, heads;
    enum bias_gradient by;
    bool rows_are_summed; /* [.,.,1,1]: by queries, then over them */
};

static struct bias_shape bias_shape_of(const clattn_problem *p)
{
    int64_t shape[5];
    clattn_problem_shape(p, CLATTN_BIAS, shape);
    struct bias_shape bias = {shape[0], shape[1], BY_PAIRS, false};
    const bool sums_queries = p->strides[CLATTN_BIAS].row == 0,
               sums_keys = p->strides[CLATTN_BIAS].column == 0;
    if (sums_keys)
        bias.by = BY_QUERIES;
    else if (sums_queries)
        bias.by = BY_KEYS;
    bias.rows_are_summed = sums_keys && sums_queries;
    return bias;
}

/* What the backward passes read of the forward one and the caller does not keep. O unrounded, so that delta is as
 * exact as the sums that made it. */
static void add_forward_scratch(struct clattn_plan *plan, int tangents)
{
    const clattn_problem *p = &plan->problem;
    const int64_t rows = query_rows(p);
    const bool rounded = p->out_dtype != (p->dtype == CLATTN_F64 ? CLATTN_F64 : CLATTN_F32);
    if (!p->present[CLATTN_LSE])
        add_scratch(plan, SLOT_LSE, rows);
    if (!p->present[CLATTN_LSE_LOW])
        add_scratch(plan, SLOT_LSE_LOW, rows);
    if (rounded || !p->present[CLATTN_O])
        add_scratch(plan, SLOT_O_FULL, rows * p->head_dim_v);
    if (tangents && !p->present[CLATTN_TLSE])
        add_scratch(plan, SLOT_TLSE, rows * tangents);
    if (tangents && (rounded || !p->present[CLATTN_TO]))
        add_scratch(plan, SLOT_TO_FULL, rows * p->head_dim_v * tangents);
}

static int64_t sink_parts(const clattn_problem *p)
{
    return (batch_stored(p) * p->queries + SINK_PART_ROWS - 1) / SINK_PART_ROWS;
}

static void add_backward_scratch(struct clattn_plan *plan, int tangents)
{
    const clattn_problem *p = &plan->problem;
    const int64_t rows = query_rows(p);
    add_scratch(plan, SLOT_DELTA, rows);
    if (tangents)
        add_scratch(plan, SLOT_TDELTA, rows);
    const struct bias_shape bias = bias_shape_of(p);
    if (wants_bias_gradient(plan) && bias.rows_are_summed) {
        add_scratch(plan, SLOT_BIAS_ROWS, bias.batches * bias.heads * p->queries);
        add_scratch(plan, SLOT_TBIAS_ROWS, tangents ? bias.batches * bias.heads * p->queries : 0);
    }
    if (wants(plan, CLATTN_DSINK, CLATTN_TDSINK)) {
        add_scratch(plan, SLOT_SINK_PARTS, p->heads_q * sink_parts(p));
        add_scratch(plan, SLOT_TSINK_PARTS, tangents ? p->heads_q * sink_parts(p) : 0);
    }
}

/* Work-groups that a pass at once has for a slice of the keys: one a sequence and key/value head. */
static int64_t owners(const clattn_problem *p)
{
    return (is_packed(p) ? p->batch + 2 : p->batch) * p->heads_kv;
}

/* Sums of dQ are kept for each slice of the keys, so there is a limit to them. */
#define MOST_SLICES 8

/* Slices that give every compute unit a few work-groups; 0 if even the most leave units idle. */
static int choose_slices(const struct clattn_plan *plan, int outer)
{
    const int64_t units = plan->context->device.compute_units, own = owners(&plan->problem);
    const int64_t tiles = tiles_over(plan->problem.keys, outer);
    if (own == 0 || tiles == 0)
        return 1;
    const int64_t most = tiles < MOST_SLICES ? tiles : MOST_SLICES;
    const int64_t wanted = tiles_over(4 * units, (int)own);
    const int64_t slices = wanted < most ? wanted : most;
    return slices * own < units && slices < tiles ? 0 : (int)slices;
}

/* Room for the sums of dQ or dQ', unless the gradient can hold them itself: see query_sums.cl. */
static void add_query_sums(struct clattn_plan *plan, clattn_tensor gradient, int slot)
{
    const clattn_problem *p = &plan->problem;
    const bool full = p->out_dtype == p->dtype && (p->dtype == CLATTN_F32 || p->dtype == CLATTN_F64);
    const bool in_place = plan->slices == 1 && p->present[gradient] && full && p->head_dim % 16 == 0;
    if (!in_place)
        add_scratch(plan, slot, plan->slices * query_rows(p) * tiles_over(p->head_dim, 16) * 16);
}

static bool takes_gradients_at_once(const struct clattn_plan *plan)
{
    return plan->engine->adds_to_inner_rows && wants(plan, CLATTN_DQ, CLATTN_TDQ) &&
           (wants(plan, CLATTN_DK, CLATTN_TDK) || wants(plan, CLATTN_DV, CLATTN_TDV));
}

static void add_backward_sources(struct pass *pass, bool at_once)
{
    static const char *const two_passes[] = {"attention/deltas.cl",    "attention/sink_gradient.cl",
                                             "attention/gradients.cl", "attention/key_gradients.cl",
                                             "attention/backward.cl",  NULL};
    static const char *const one_pass[] = {"attention/deltas.cl",
                                           "attention/sink_gradient.cl",
                                           "attention/gradients.cl",
                                           "attention/query_sums.cl",
                                           "attention/key_gradients.cl",
                                           "attention/backward_at_once.cl",
                                           NULL};
    add_source_list(&pass->spec, at_once ? one_pass : two_passes);
    clattn_spec_define(&pass->spec, "BACKWARD_AT_ONCE", at_once);
}

static clattn_status launch_two_passes(struct clattn_plan *plan, const struct pass *pass, int tangent_first)
{
    const clattn_problem *p = &plan->problem;
    if (wants(plan, CLATTN_DQ, CLATTN_TDQ))
        CLATTN_TRY(add_tiles(plan, pass, "attention_backward_queries",
                             outer_tiles(p, p->queries, p->heads_q, pass->tile.outer), tangent_first));
    if (wants(plan, CLATTN_DK, CLATTN_TDK) || wants(plan, CLATTN_DV, CLATTN_TDV))
        CLATTN_TRY(add_tiles(plan, pass, "attention_backward_keys",
                             outer_tiles(p, p->keys, p->heads_kv, pass->tile.outer), tangent_first));
    return CLATTN_SUCCESS;
}

static clattn_status launch_at_once(struct clattn_plan *plan, const struct pass *pass, int tangent_first)
{
    const clattn_problem *p = &plan->problem;
    CLATTN_TRY(add_tiles(plan, pass, "attention_backward_at_once", owners(p) * plan->slices, tangent_first));
    if (plan->slices == 1)
        return CLATTN_SUCCESS;
    return add_launch(plan, pass, "attention_sum_query_gradients", query_rows(p), 0, tangent_first);
}

/* The kernels of one tangent, or of none. */
static clattn_status plan_backward_pass(struct clattn_plan *plan, int tangent_first, int tangents)
{
    const clattn_problem *p = &plan->problem;
    struct pass pass;
    CLATTN_TRY(begin_pass(plan, tangents, 2 * (1 + tangents), &pass));
    const int slices = takes_gradients_at_once(plan) ? choose_slices(plan, pass.tile.outer) : 0;
    add_backward_sources(&pass, slices > 0);
    CLATTN_TRY(build_pass(plan, &pass));
    take_note(plan, &pass);
    plan->tile = pass.tile;
    if (slices > 0 && tangent_first == 0) {
        plan->slices = slices;
        add_query_sums(plan, CLATTN_DQ, SLOT_DQ_PARTS);
        if (tangents)
            add_query_sums(plan, CLATTN_TDQ, SLOT_TDQ_PARTS);
    }
    CLATTN_TRY(add_launch(plan, &pass, "attention_deltas", query_rows(p), 0, tangent_first));
    if (wants(plan, CLATTN_DSINK, CLATTN_TDSINK)) {
        CLATTN_TRY(
            add_launch(plan, &pass, "attention_sink_parts", p->heads_q * sink_parts(p), 0, tangent_first));
        CLATTN_TRY(add_launch(plan, &pass, "attention_sink_gradient", p->heads_q, 0, tangent_first));
    }
    return slices > 0 ? launch_at_once(plan, &pass, tangent_first)
                      : launch_two_passes(plan, &pass, tangent_first);
}

static clattn_status plan_bias_gradient(struct clattn_plan *plan, int tangent_first, int tangents)
{
    const clattn_problem *p = &plan->problem;
    const struct bias_shape bias = bias_shape_of(p);
    struct pass pass;
    CLATTN_TRY(begin_pass(plan, tangents, 0, &pass));
    clattn_spec_add_source(&pass.spec, "attention/gradients.cl");
    clattn_spec_add_source(&pass.spec, "attention/bias_gradient.cl");
    clattn_spec_define(&pass.spec, "BIAS_GRADIENT", bias.by);
    CLATTN_TRY(build_pass(plan, &pass));
    const int64_t outer = tiles_over(bias.by == BY_KEYS ? p->keys : p->queries, pass.tile.outer);
    const int64_t inner = bias.by == BY_PAIRS ? tiles_over(p->keys, pass.tile.inner) : 1;
    CLATTN_TRY(add_tiles(plan, &pass, "attention_bias_gradient", bias.batches * bias.heads * outer * inner,
                         tangent_first));
    if (!bias.rows_are_summed)
        return CLATTN_SUCCESS;
    return add_launch(plan, &pass, "attention_sum_bias_rows", bias.batches * bias.heads, 0, tangent_first);
}

/* Tangents are taken one by one: each has six products to the primal's three, so little is shared. */
static clattn_status plan_backward(struct clattn_plan *plan, int tangents)
{
    if (!plan->problem.forward_given) {
        add_forward_scratch(plan, tangents);
        CLATTN_TRY(plan_forward(plan, tangents));
    }
    add_backward_scratch(plan, tangents);
    int t = 0;
    do {
        CLATTN_TRY(plan_backward_pass(plan, t, tangents > 0));
        if (wants_bias_gradient(plan))
            CLATTN_TRY(plan_bias_gradient(plan, t, tangents > 0));
    } while (++t < tangents);
    return CLATTN_SUCCESS;
}

clattn_status clattn_plan_operation(struct clattn_plan *plan)
{
    for (int slot = 0; slot < SLOT_COUNT; slot++)
        plan->scratch_at[slot] = -1;
    plan->workspace_bytes = 0;
    plan->slices = plan->splits = 1;
    const int tangents = (int)plan->problem.tangents;
    switch (plan->operation) {
    case CLATTN_FORWARD:
        return plan_forward(plan, 0);
    case CLATTN_JVP:
        return plan_forward(plan, tangents);
    case CLATTN_VJP:
        return plan_backward(plan, 0);
    default:
        return plan_backward(plan, tangents);
    }
}
