/*
 * What each operation launches. Knows algorithms by their kernels' names and
 * the facts that are compiled in; knows no engine.
 */
#include "operations.h"

#include <stdlib.h>
#include <string.h>

#include "status.h"
#include "tensor.h"

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
}

static void define_tangents(struct clattn_program_spec *spec, const clattn_problem *p, int tangents)
{
    clattn_spec_define(spec, "TANGENTS", tangents);
    clattn_spec_define(spec, "HAS_TQ", tangents && p->present[CLATTN_TQ]);
    clattn_spec_define(spec, "HAS_TK", tangents && p->present[CLATTN_TK]);
    clattn_spec_define(spec, "HAS_TV", tangents && p->present[CLATTN_TV]);
    clattn_spec_define(spec, "HAS_TBIAS", tangents && p->present[CLATTN_TBIAS]);
}

static void define_engine(struct clattn_program_spec *spec, const struct clattn_engine *engine,
                          const struct clattn_tile *tile)
{
    clattn_spec_define(spec, "HEAD_DIM_CLASS", tile->head_dim_class);
    clattn_spec_define(spec, "HEAD_DIM_V_CLASS", tile->head_dim_v_class);
    engine->define(spec, tile);
}

/* Numbers and tensors, the engine's lanes, the rules, the engine's words, the algorithm. */
static void add_sources(struct clattn_program_spec *spec, const struct clattn_engine *engine,
                        const char *algorithm)
{
    static const char *const common[] = {"common/params.h", "common/types.cl", "common/tensors.cl"};
    static const char *const rules[] = {"logits/logit.cl", "logits/position.cl", "logits/softcap.cl",
                                        "logits/mask.cl",  "logits/bias.cl",     "logits/rules.cl"};
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        clattn_spec_add_source(spec, common[i]);
    clattn_spec_add_source(spec, engine->sources[0]);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        clattn_spec_add_source(spec, rules[i]);
    for (int i = 1; engine->sources[i]; i++)
        clattn_spec_add_source(spec, engine->sources[i]);
    clattn_spec_add_source(spec, "attention/tiles.cl");
    clattn_spec_add_source(spec, algorithm);
}

/* Appends a launch of `tiles` tiles; none when there is nothing to do. */
static clattn_status add_launch(struct clattn_plan *plan, cl_program program, const char *kernel, int64_t tiles,
                                int tangent_first)
{
    if (tiles == 0)
        return CLATTN_SUCCESS;
    struct clattn_launch *grown =
        realloc(plan->launches, ((size_t)plan->launch_count + 1) * sizeof *plan->launches);
    if (!grown)
        return clattn_fail(CLATTN_OUT_OF_MEMORY, "host memory for a launch");
    plan->launches = grown;
    const size_t items = (size_t)plan->tile.items_x * (size_t)plan->tile.items_y;
    struct clattn_launch launch = {.global = (size_t)tiles * (items ? items : 1),
                                   .local = items,
                                   .tangent_first = tangent_first};
    cl_int error;
    launch.kernel = clCreateKernel(program, kernel, &error);
    CLATTN_TRY(clattn_from_cl(error, "clCreateKernel"));
    plan->launches[plan->launch_count++] = launch;
    return CLATTN_SUCCESS;
}

static int64_t tiles_of(const struct clattn_plan *plan, int64_t rows, int64_t heads)
{
    return (rows + plan->tile.outer - 1) / plan->tile.outer * heads * plan->problem.batch;
}

/* One pass over the keys for up to TANGENTS_A_PASS tangents. */
static clattn_status plan_forward_pass(struct clattn_plan *plan, int tangent_first, int tangents)
{
    const clattn_problem *p = &plan->problem;
    const struct clattn_tile_query query = {&plan->context->device, p, 1 + tangents};
    if (!plan->engine->choose_tile(&query, &plan->tile))
        return clattn_fail(CLATTN_UNSUPPORTED, "engine %s: no tile fits %s", plan->engine->name,
                           plan->context->device.name);
    struct clattn_program_spec spec = {.source_count = 0};
    add_sources(&spec, plan->engine, "attention/forward.cl");
    define_problem(&spec, p);
    define_tangents(&spec, p, tangents);
    define_engine(&spec, plan->engine, &plan->tile);
    cl_program program;
    CLATTN_TRY(clattn_program_get(plan->context, &spec, &program));
    return add_launch(plan, program, "attention_forward", tiles_of(plan, p->queries, p->heads_q), tangent_first);
}

static clattn_status plan_forward(struct clattn_plan *plan, int tangents)
{
    int first = 0;
    do {
        const int now = tangents - first < TANGENTS_A_PASS ? tangents - first : TANGENTS_A_PASS;
        CLATTN_TRY(plan_forward_pass(plan, first, now));
        first += now;
    } while (first < tangents);
    return CLATTN_SUCCESS;
}

clattn_status clattn_plan_operation(struct clattn_plan *plan)
{
    for (int slot = 0; slot < SLOT_COUNT; slot++)
        plan->scratch_at[slot] = -1;
    return plan_forward(plan, plan->operation == CLATTN_JVP ? (int)plan->problem.tangents : 0);
}
