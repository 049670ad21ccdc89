/*
 * What an engine is to the host: a name, whether it can take a problem, its
 * tiles, and the sources that hold its words. Adding one touches its .c and
 * .cl file and one line of registry.c.
 */
#ifndef CLATTN_ENGINE_H
#define CLATTN_ENGINE_H

#include "clattn/clattn.h"
#include "program.h"

/* How a program cuts its problem up. */
struct clattn_tile {
    int outer;          /* rows that a tile owns */
    int inner;          /* rows it takes a step */
    int items_x;        /* work-items along a row of the tile */
    int items_y;        /* along a column; items_x items_y = 0 lets the driver choose the work-group */
    int slice;          /* staged depth; inner tiles in flight */
    int lanes;          /* numbers a vector */
    int most_groups;    /* work-groups a launch, each over many tiles; 0: one a tile */
    bool unroll;        /* accumulators belong in registers: loops over them are unrolled */
    int head_dim_class; /* compiled bounds of D and Dv */
    int head_dim_v_class;
};

/* What the choice of a tile may look at. */
struct clattn_tile_query {
    const clattn_device_info *device;
    const clattn_problem *problem;
    int held_outputs; /* output accumulators that the algorithm holds at once */
};

struct clattn_engine {
    const char *name;
    bool only_by_name;       /* not tried on enough yet to be chosen: taken when a problem asks for it */
    bool loads_by_maps;      /* its kernels keep descriptions of the tensors in the workspace */
    bool is_ptx_for_sm_90a;  /* its programs are changed on their way; see ptx.h */
    bool adds_to_inner_rows; /* it has that word: gradients can be computed in one pass */
    bool may_not_build;      /* it uses what a driver's compiler may lack: then the next engine takes over */
    const char *lanes[3];    /* what a number is; NULL-terminated, as the next */
    const char *sources[7];  /* the engine's words */
    /* Writes why not to `reason`, of `size` bytes, when it cannot. */
    bool (*supports)(const clattn_device_info *device, clattn_operation operation,
                     const clattn_problem *problem, char *reason, size_t size);
    bool (*choose_tile)(const struct clattn_tile_query *query, struct clattn_tile *tile);
    void (*define)(struct clattn_program_spec *spec, const struct clattn_tile *tile);
};

/* In order of merit; NULL past the end. */
const struct clattn_engine *clattn_engine_at(int index);

/* The engine that a problem asks for or the best that takes it, of all or of those behind `after` in merit. `reason`
 * gets a line on those passed over. */
clattn_status clattn_engine_choose(const clattn_device_info *device, clattn_operation operation,
                                   const clattn_problem *problem, const struct clattn_engine *after,
                                   const struct clattn_engine **engine, char *reason, size_t size);

/* What holds for every engine whose sums are plain OpenCL C: f64 needs cl_khr_fp64, head dims have a largest class. */
bool clattn_engine_supports_portably(const clattn_device_info *device, clattn_operation operation,
                                     const clattn_problem *problem, char *reason, size_t size);

/* The smallest compiled bound that holds a head dim: few bounds, so that many problems share a program. */
int clattn_head_dim_class(int64_t head_dim);

#endif
