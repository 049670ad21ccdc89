/* Engine "reference" on the host: one work-item a row, on anything. */
#include "engines/engine.h"

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
    .lanes = {"common/scalar_lanes.cl"},
    .sources = {"engines/reference.cl", "engines/products.cl", "engines/one_by_one.cl",
                "engines/scattered_store.cl"},
    .supports = clattn_engine_supports_portably,
    .choose_tile = choose_tile,
    .define = define,
};
