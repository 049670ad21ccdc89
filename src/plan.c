/* Plans: a problem checked, an engine chosen, programs compiled, facts laid out for the device. */
#include "plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operations.h"
#include "problem.h"
#include "status.h"
#include "tensor.h"

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* A window that no sequence can leave: positions differ by less than this. */
#define UNBOUNDED (2 * CLATTN_MAX_ROWS)

static int window_side(int64_t side) { return (int)(side < 0 || side > UNBOUNDED ? UNBOUNDED : side); }

static void fill_params(const clattn_problem *p, struct attention_params *params)
{
    memset(params, 0, sizeof *params);
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        if (!p->present[t])
            continue;
        const struct clattn_extent extent = clattn_tensor_extent(p, (clattn_tensor)t);
        int64_t stride[5];
        /* an axis of one element has no stride: what a tangent gives for one that its bias broadcasts is not used */
        for (int axis = 0; axis < 5; axis++)
            stride[axis] = extent.size[axis] > 1 ? extent.stride[axis] : 0;
        params->strides[t] = (struct axis_strides){stride[0], stride[1], stride[2], stride[3], stride[4]};
    }
    params->batch = (int)p->batch;
    params->batch_stored = p->present[CLATTN_CU_SEQLENS_Q] ? 1 : (int)p->batch;
    params->block_rows = (int)p->block_rows;
    params->block_columns = (int)p->block_columns;
    params->heads_q = (int)p->heads_q;
    params->heads_kv = (int)p->heads_kv;
    params->heads_per_kv = p->heads_kv ? (int)(p->heads_q / p->heads_kv) : 1;
    params->queries = (int)p->queries;
    params->keys = (int)p->keys;
    int64_t bias[5] = {1, 1};
    if (p->present[CLATTN_BIAS])
        clattn_problem_shape(p, CLATTN_BIAS, bias);
    params->bias_batches = (int)bias[0];
    params->bias_heads = (int)bias[1];
    params->head_dim = (int)p->head_dim;
    params->head_dim_v = (int)p->head_dim_v;
    params->diagonal_top_left = p->causal == CLATTN_CAUSAL_TOP_LEFT;
    params->left = window_side(p->window_left);
    params->right = p->causal == CLATTN_CAUSAL_NONE ? window_side(p->window_right) : 0;
    params->scale = (float)p->scale;
    params->softcap = (float)p->softcap;
    params->scale_f64 = bits_of(p->scale);
    params->softcap_f64 = bits_of(p->softcap);
    params->dropout_seed = p->dropout_seed;
    params->dropout_offset = p->dropout_offset;
    params->dropout_threshold = (uint32_t)floor(p->dropout * 4294967296.0);
    params->dropout_scale = (float)(1 / (1 - p->dropout));
    params->dropout_scale_f64 = bits_of(1 / (1 - p->dropout));
}

/* Few enough for their keys and values to stay in a cache, enough to spread the tiles that see most keys. */
#define HEADS_TOGETHER 16

static clattn_status create_params(struct clattn_plan *plan)
{
    struct attention_params params;
    fill_params(&plan->problem, &params);
    params.slices = plan->slices;
    params.heads_together =
        plan->tile.most_groups && plan->problem.causal != CLATTN_CAUSAL_NONE ? HEADS_TOGETHER : 1;
    params.splits = plan->splits;
    return clattn_create_buffer(plan->context, "facts of the plan", CL_MEM_READ_ONLY, sizeof params, &params,
                                &plan->params);
}

static void release_launches(struct clattn_plan *plan)
{
    for (int i = 0; i < plan->launch_count; i++)
        clReleaseKernel(plan->launches[i].kernel);
    free(plan->launches);
    plan->launches = NULL;
    plan->launch_count = 0;
}

/* True if a driver's word on an engine's programs is no reason to fail: the next engine asks less of it. */
static bool may_be_refused(const struct clattn_plan *plan, clattn_status status)
{
    return status == CLATTN_BUILD_ERROR && plan->engine->may_not_build && !plan->problem.engine;
}

static clattn_status make(struct clattn_plan *plan)
{
    char refusal[160] = "";
    const struct clattn_engine *refused = NULL;
    clattn_status status;
    do {
        CLATTN_TRY(clattn_engine_choose(&plan->context->device, plan->operation, &plan->problem, refused,
                                        &plan->engine, plan->reason, sizeof plan->reason));
        status = clattn_plan_operation(plan);
        refused = may_be_refused(plan, status) ? plan->engine : NULL;
        if (refused) {
            snprintf(refusal, sizeof refusal, "not %s: %.120s", refused->name, clattn_message());
            release_launches(plan);
        }
    } while (refused);
    CLATTN_TRY(status);
    if (*refusal) {
        char reason[sizeof plan->reason];
        snprintf(reason, sizeof reason, "%.150s; %.100s", refusal, plan->reason);
        memcpy(plan->reason, reason, sizeof reason);
    }
    return create_params(plan);
}

clattn_status clattn_plan_create(clattn_context *context, clattn_operation operation,
                                 const clattn_problem *problem, clattn_plan **plan)
{
    if (!plan)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "plan: NULL, expected where to put the plan");
    *plan = NULL;
    if (!context)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "context: NULL, expected a clattn_context");
    CLATTN_TRY(clattn_problem_check(problem, operation));
    struct clattn_plan *made = calloc(1, sizeof *made);
    if (!made)
        return clattn_fail(CLATTN_OUT_OF_MEMORY, "host memory for a plan");
    pthread_mutex_init(&made->lock, NULL);
    made->context = context;
    made->operation = operation;
    made->problem = *problem;
    const clattn_status status = make(made);
    /* the caller's strings need not outlive this call */
    made->problem.engine = NULL;
    made->problem.logit = NULL;
    if (status != CLATTN_SUCCESS) {
        clattn_plan_release(made);
        return status;
    }
    *plan = made;
    return CLATTN_SUCCESS;
}

void clattn_plan_release(clattn_plan *plan)
{
    if (!plan)
        return;
    release_launches(plan);
    if (plan->params)
        clReleaseMemObject(plan->params);
    pthread_mutex_destroy(&plan->lock);
    free(plan);
}

static uint64_t bytes_moved(const clattn_problem *p)
{
    uint64_t bytes = 0;
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        if (!p->present[t])
            continue;
        const struct clattn_extent extent = clattn_tensor_extent(p, (clattn_tensor)t);
        uint64_t elements = 1;
        for (int axis = 0; axis < 5; axis++)
            elements *= (uint64_t)extent.size[axis];
        bytes += elements * clattn_problem_element_size(p, (clattn_tensor)t);
    }
    return bytes;
}

clattn_status clattn_plan_describe(const clattn_plan *plan, clattn_plan_info *info)
{
    if (!plan || !info)
        return clattn_fail(CLATTN_INVALID_ARGUMENT, "%s: NULL", plan ? "info" : "plan");
    const struct clattn_tile *tile = &plan->tile;
    *info = (clattn_plan_info){
        .operation = plan->operation,
        .engine = plan->engine->name,
        .workspace_bytes = plan->workspace_bytes,
        .flops = clattn_operation_flops(&plan->problem, plan->operation),
        .bytes = bytes_moved(&plan->problem),
    };
    const int used = snprintf(info->tiles, sizeof info->tiles, "%dx%d", tile->outer, tile->inner);
    if (tile->items_x * tile->items_y > 1)
        snprintf(info->tiles + used, sizeof info->tiles - (size_t)used, " by %dx%d work-items", tile->items_x,
                 tile->items_y);
    snprintf(info->reason, sizeof info->reason, "%s", plan->reason);
    return CLATTN_SUCCESS;
}
