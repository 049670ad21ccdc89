/* Operations: which kernels an operation launches, from which programs, and what it counts. */
#ifndef CLATTN_OPERATIONS_H
#define CLATTN_OPERATIONS_H

#include "plan.h"

/* Fills the plan's scratch, launches and tile, compiling what is not compiled yet. */
clattn_status clattn_plan_operation(struct clattn_plan *plan);

/* Floating-point operations by the counts of the public header. */
double clattn_operation_flops(const clattn_problem *problem, clattn_operation operation);

#endif
