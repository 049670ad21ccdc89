/* Engine "reference" on the host: one work-item a row, on anything. */
#include <stdio.h>

#include "engines/engine.h"

static bool supports(const clattn_device_info *device, const clattn_problem *problem, char *reason, size_t size)
{
    if (problem->dtype == CLATTN_F64 && !device->has_fp64) {
        snprintf(reason, size, "the device has no cl_khr_fp64");
        return false;
    }
    if (!clattn_head_dim_class(problem->head_dim) || !clattn_head_dim_class(problem->head_dim_v)) {
        snprintf(reason, size, "head dims go up to 1024");
        return false;
    }
    return true;
}

static bool choose_tile(const struct clattn_tile_query *query, struct clattn_tile *tile)
{
    *tile = (struct clattn_tile){
        .outer = 1,
        .inner = 32,
        .head_dim_class = clattn_head_dim_class(query->problem->head_dim),
        .head_dim_v_class = clattn_head_dim_class(query->problem->head_dim_v),
    };
    return true;
}

static void define(struct clattn_program_spec *spec, const struct clattn_tile *tile)
{
    clattn_spec_define(spec, "INNER", tile->inner);
}

const struct clattn_engine clattn_engine_reference = {
    .name = "reference",
    .sources = {"common/scalar_lanes.cl", "engines/reference.cl"},
    .supports = supports,
    .choose_tile = choose_tile,
    .define = define,
};
