/* Engine "cpu" on the host: vectors of a CPU's own width, a tile a work-item. */
#include <stdio.h>

#include "engines/cpu.h"

/* What a work-item's arrays may take of its thread's stack, of which drivers give 8 MB or more. */
#define MOST_BYTES (3u << 20)

static int lanes_of(const struct clattn_tile_query *query)
{
    const int floats = query->device->vector_floats >= 16 ? 16 : query->device->vector_floats >= 8 ? 8 : 4;
    return query->problem->dtype == CLATTN_F64 && floats > 4 ? floats / 2 : floats;
}

/* Bytes of the arrays that grow with the tile: held rows, outputs, scores. */
static uint64_t private_bytes(const struct clattn_tile *tile, const struct clattn_tile_query *query)
{
    const uint64_t dims = (uint64_t)(tile->head_dim_class > tile->head_dim_v_class ? tile->head_dim_class
                                                                                   : tile->head_dim_v_class);
    const uint64_t held = (uint64_t)query->held_outputs + 2;
    const uint64_t reals =
        (uint64_t)tile->outer * (2 * held * dims + 4 * (uint64_t)tile->inner) + (uint64_t)tile->inner * dims;
    return reals * (query->problem->dtype == CLATTN_F64 ? 8 : 4);
}

bool clattn_cpu_tile_fits(const struct clattn_tile *tile, const struct clattn_tile_query *query)
{
    return private_bytes(tile, query) <= MOST_BYTES;
}

/* Lanes without a row cost as much as others; fewer vectors a tile cost speed, because a broadcast serves fewer. */
static double cost(int64_t rows, int lanes, int vectors)
{
    static const double slowness[] = {1.25, 1.05, 1.0};
    const int64_t tile = (int64_t)lanes * vectors;
    return (double)((rows + tile - 1) / tile * tile) * slowness[vectors - 1];
}

/* With many rows always the same, so that problems share programs. */
#define FEW_ROWS 128

static int vectors_for(int64_t rows, int lanes)
{
    int best = 3;
    for (int vectors = 2; vectors >= 1 && rows <= FEW_ROWS; vectors--)
        if (cost(rows, lanes, vectors) < cost(rows, lanes, best))
            best = vectors;
    return best;
}

static bool choose_tile(const struct clattn_tile_query *query, struct clattn_tile *tile)
{
    const clattn_problem *p = query->problem;
    const int lanes = lanes_of(query);
    *tile = (struct clattn_tile){
        .inner = p->keys <= 32 && p->queries <= 32 ? 32 : 64,
        .items_x = 1,
        .items_y = 1,
        .lanes = lanes,
        .head_dim_class = clattn_head_dim_class(p->head_dim),
        .head_dim_v_class = clattn_head_dim_class(p->head_dim_v),
    };
    for (int vectors = vectors_for(p->queries, lanes); vectors >= 1; vectors--) {
        tile->outer = lanes * vectors;
        if (clattn_cpu_tile_fits(tile, query))
            return true;
    }
    return false;
}

static bool supports(const clattn_device_info *device, clattn_operation operation,
                     const clattn_problem *problem, char *reason, size_t size)
{
    if (!device->is_cpu) {
        snprintf(reason, size, "the device is no CPU");
        return false;
    }
    return clattn_engine_supports_portably(device, operation, problem, reason, size);
}

void clattn_cpu_define(struct clattn_program_spec *spec, const struct clattn_tile *tile)
{
    clattn_spec_define(spec, "LANES", tile->lanes);
    clattn_spec_define(spec, "VECTORS", tile->outer / tile->lanes);
    clattn_spec_define(spec, "BN", tile->inner);
}

static void define(struct clattn_program_spec *spec, const struct clattn_tile *tile)
{
    clattn_cpu_define(spec, tile);
    clattn_spec_define(spec, "ROWS", tile->lanes == 16 ? 8 : 4);
}

const struct clattn_engine clattn_engine_cpu = {
    .name = "cpu",
    .adds_to_inner_rows = true,
    .lanes = {"common/vector_lanes.cl"},
    .sources = {"engines/cpu.cl", "engines/cpu_products.cl", "engines/products.cl", "engines/one_by_one.cl"},
    .supports = supports,
    .choose_tile = choose_tile,
    .define = define,
};
