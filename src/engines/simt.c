/* Engine "simt" on the host: work-groups with local memory, on any GPU (and, slowly, on CPUs). */
#include <stdio.h>

#include "engines/engine.h"

/* Best first; the first that fits the device is taken. Sizes as in cl/engines/simt.cl. */
static const struct clattn_tile gpu_tiles[] = {
    {.outer = 64, .inner = 64, .items_x = 16, .items_y = 16, .slice = 16},
    {.outer = 32, .inner = 32, .items_x = 16, .items_y = 16, .slice = 16},
    {.outer = 32, .inner = 32, .items_x = 16, .items_y = 16, .slice = 8},
    {.outer = 16, .inner = 16, .items_x = 16, .items_y = 4, .slice = 8},
    {.outer = 8, .inner = 16, .items_x = 16, .items_y = 2, .slice = 4},
};
/* Fewer work-items, more work each: a barrier costs a loop over all of them. */
static const struct clattn_tile cpu_tiles[] = {
    {.outer = 32, .inner = 32, .items_x = 16, .items_y = 4, .slice = 16},
    {.outer = 16, .inner = 32, .items_x = 16, .items_y = 4, .slice = 16},
    {.outer = 8, .inner = 16, .items_x = 16, .items_y = 2, .slice = 4},
};

/* Bytes of local memory: the arrays of GROUP in cl/engines/simt.cl. */
static uint64_t local_bytes(const struct clattn_tile *tile, bool f64)
{
    const int widest =
        tile->head_dim_class > tile->head_dim_v_class ? tile->head_dim_class : tile->head_dim_v_class;
    const int stage_scores = tile->slice * (tile->outer + 1 + tile->inner + 1);
    const int stage_values = tile->slice * widest;
    const int stage = stage_scores > stage_values ? stage_scores : stage_values;
    const int reals = stage + tile->outer * (tile->inner + 1) + tile->outer * tile->items_x;
    return (uint64_t)reals * (f64 ? 8 : 4) + 4;
}

/* Accumulators that a work-item holds: beyond this they live in memory, and a smaller tile is better. */
#define MOST_ACCUMULATORS 160

static bool fits(const struct clattn_tile_query *query, const struct clattn_tile *tile, bool last)
{
    const int rows = tile->outer / tile->items_y;
    const int accumulators = rows * tile->head_dim_v_class / tile->items_x * query->held_outputs;
    return (uint64_t)(tile->items_x * tile->items_y) <= query->device->max_work_group &&
           local_bytes(tile, query->problem->dtype == CLATTN_F64) <= query->device->local_memory &&
           (last || accumulators <= MOST_ACCUMULATORS || query->device->is_cpu);
}

static bool choose_tile(const struct clattn_tile_query *query, struct clattn_tile *tile)
{
    const bool cpu = query->device->is_cpu;
    const struct clattn_tile *tiles = cpu ? cpu_tiles : gpu_tiles;
    const int count =
        (int)(cpu ? sizeof cpu_tiles / sizeof *cpu_tiles : sizeof gpu_tiles / sizeof *gpu_tiles);
    for (int i = 0; i < count; i++) {
        *tile = tiles[i];
        tile->unroll = !cpu;
        tile->head_dim_class = clattn_head_dim_class(query->problem->head_dim);
        tile->head_dim_v_class = clattn_head_dim_class(query->problem->head_dim_v);
        if (fits(query, tile, i == count - 1))
            return true;
    }
    return false;
}

static bool supports(const clattn_device_info *device, clattn_operation operation,
                     const clattn_problem *problem, char *reason, size_t size)
{
    if (!clattn_engine_supports_portably(device, operation, problem, reason, size))
        return false;
    struct clattn_tile tile;
    if (!choose_tile(&(struct clattn_tile_query){device, problem, 2}, &tile)) {
        snprintf(reason, size, "no tile fits %llu bytes of local memory and work-groups of %llu",
                 (unsigned long long)device->local_memory, (unsigned long long)device->max_work_group);
        return false;
    }
    return true;
}

static void define(struct clattn_program_spec *spec, const struct clattn_tile *tile)
{
    clattn_spec_define(spec, "BM", tile->outer);
    clattn_spec_define(spec, "BN", tile->inner);
    clattn_spec_define(spec, "BK", tile->slice);
    clattn_spec_define(spec, "TX", tile->items_x);
    clattn_spec_define(spec, "TY", tile->items_y);
    clattn_spec_define(spec, "UNROLL_LOOPS", tile->unroll);
}

const struct clattn_engine clattn_engine_simt = {
    .name = "simt",
    .lanes = {"common/scalar_lanes.cl"},
    .sources = {"engines/simt.cl", "engines/products.cl", "engines/one_by_one.cl",
                "engines/scattered_store.cl"},
    .supports = supports,
    .choose_tile = choose_tile,
    .define = define,
};
