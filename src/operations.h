/* Operations: which kernels an operation launches, from which programs, and what it counts. */
#ifndef CLATTN_OPERATIONS_H
#define CLATTN_OPERATIONS_H

#include "plan.h"

/* Fills the plan's scratch, launches and tile, compiling what is not compiled yet. */
clattn_status clattn_plan_operation(struct clattn_plan *plan);

/* A launch that counts the tiles of the plan's forward pass, one pair of ints for each of *outer_tiles; its kernel is
 * the caller's to release. */
clattn_status clattn_plan_counting(const struct clattn_plan *plan, struct clattn_launch *launch,
                                   int64_t *outer_tiles);

/* Floating-point operations by the counts of the public header. */
double clattn_operation_flops(const clattn_problem *problem, clattn_operation operation);

#endif
