/* Engine "nv_wgmma" on the host: NVIDIA's compute capability 9.0, forward attention and its tangents in half types. */
#include <stdint.h>
#include <stdio.h>

#include "engines/engine.h"
#include "tensor.h"

/* Sizes as in cl/engines/nv_wgmma.cl. */
#define PIECE_BYTES 128    /* of a row, as a tile keeps it */
#define MOST_SHARED 231424 /* of the 227 KB, what the driver leaves at an alignment of 1024 */

static int pieces(int dim_class) { return (dim_class + 63) / 64; }

/* Tangent tensors of a pass. */
static int count_tangents(const struct clattn_tile_query *query, clattn_tensor tensor)
{
    return query->problem->present[tensor] ? query->held_outputs - 1 : 0;
}

static int held_bytes(const struct clattn_tile_query *query, const struct clattn_tile *tile)
{
    return (1 + count_tangents(query, CLATTN_TQ)) * pieces(tile->head_dim_class) * tile->outer * PIECE_BYTES;
}

static int inner_bytes(const struct clattn_tile *tile)
{
    const int key = pieces(tile->head_dim_class), value = pieces(tile->head_dim_v_class);
    return (key > value ? key : value) * tile->inner * PIECE_BYTES;
}

/* Accumulators of a work-item: of the 240 registers or, with three warpgroups, 160, what the rest leaves. */
static bool registers_suffice(const struct clattn_tile_query *query, const struct clattn_tile *tile)
{
    const int held = query->held_outputs * (tile->head_dim_v_class + tile->inner) / 2;
    return held <= (tile->outer == 192 ? 96 : 192);
}

/* Inner tiles that fit behind the held ones: three steps' at most, one step's at least. */
static bool fit_ring(const struct clattn_tile_query *query, struct clattn_tile *tile)
{
    const int a_step = 2 + count_tangents(query, CLATTN_TK) + count_tangents(query, CLATTN_TV);
    const int room = MOST_SHARED - 1024 - held_bytes(query, tile);
    const int fit = room > 0 ? room / inner_bytes(tile) : 0;
    tile->slice = fit < 3 * a_step ? fit : 3 * a_step;
    return tile->slice >= a_step;
}

static int value_class(int64_t head_dim) { return head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256; }

static bool choose_tile(const struct clattn_tile_query *query, struct clattn_tile *tile)
{
    const clattn_problem *p = query->problem;
    const bool three = query->held_outputs == 1 && p->head_dim_v <= 64 && p->head_dim <= 64;
    *tile = (struct clattn_tile){
        .outer = three ? 192 : 128,
        .items_x = three ? 512 : 384,
        .items_y = 1,
        .most_groups = query->device->compute_units,
        .head_dim_class = clattn_head_dim_class(p->head_dim),
        .head_dim_v_class = value_class(p->head_dim_v),
    };
    for (tile->inner = 128; tile->inner >= 32; tile->inner /= 2)
        if (registers_suffice(query, tile) && fit_ring(query, tile))
            return true;
    return false;
}

/* What a tensor map can say: strides of 16 bytes and less than 2^40. */
static bool maps_can_express(const clattn_problem *p, char *reason, size_t size)
{
    static const clattn_tensor loaded[] = {CLATTN_Q, CLATTN_K, CLATTN_V, CLATTN_TQ, CLATTN_TK, CLATTN_TV};
    for (size_t i = 0; i < sizeof loaded / sizeof *loaded; i++) {
        if (!p->present[loaded[i]])
            continue;
        const struct clattn_extent extent = clattn_tensor_extent(p, loaded[i]);
        for (int axis = 0; axis < 4; axis++)
            if (extent.size[axis] > 1 && (extent.stride[axis] <= 0 || extent.stride[axis] % 8 != 0 ||
                                          extent.stride[axis] >= INT64_C(1) << 39)) {
                snprintf(reason, size, "%s: strides of multiples of 16 bytes only",
                         clattn_tensor_name(loaded[i]));
                return false;
            }
    }
    return true;
}

static bool supports(const clattn_device_info *device, clattn_operation operation,
                     const clattn_problem *problem, char *reason, size_t size)
{
    if (device->compute_capability != 90) {
        snprintf(reason, size, "the device is not of compute capability 9.0");
        return false;
    }
    if (operation != CLATTN_FORWARD && operation != CLATTN_JVP) {
        snprintf(reason, size, "forward and jvp only");
        return false;
    }
    if (problem->dtype != CLATTN_F16 && problem->dtype != CLATTN_BF16) {
        snprintf(reason, size, "f16 and bf16 only");
        return false;
    }
    struct clattn_tile tile;
    if (problem->head_dim > 256 || problem->head_dim_v > 256 ||
        !choose_tile(&(struct clattn_tile_query){device, problem, 1 + (operation == CLATTN_JVP)}, &tile)) {
        snprintf(reason, size, "no tile fits these head dims");
        return false;
    }
    /* tiles are numbered by int */
    if (problem->batch * problem->heads_q * (problem->queries / 128 + 1) > INT32_MAX / 128) {
        snprintf(reason, size, "too many tiles");
        return false;
    }
    return maps_can_express(problem, reason, size);
}

static void define(struct clattn_program_spec *spec, const struct clattn_tile *tile)
{
    clattn_spec_define(spec, "INNER", tile->inner);
    clattn_spec_define(spec, "WARPGROUPS", tile->outer / 64);
    clattn_spec_define(spec, "RING", tile->slice);
    clattn_spec_define(spec, "TAKES_TURNS", tile->outer == 128 ? 2 : 0);
}

const struct clattn_engine clattn_engine_nv_wgmma = {
    .name = "nv_wgmma",
    .only_by_name = true,
    .loads_by_maps = true,
    .is_ptx_for_sm_90a = true,
    .may_not_build = true,
    .lanes = {"engines/nv_lanes.cl", "common/scalar_lanes.cl"},
    .sources = {"common/tensor_map.h", "engines/nv_ptx.cl", "engines/nv_wgmma.cl", "engines/products.cl",
                "engines/nv_products.cl"},
    .supports = supports,
    .choose_tile = choose_tile,
    .define = define,
};
