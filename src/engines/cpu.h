/* What the engines for CPUs share on the host. */
#ifndef CLATTN_CPU_H
#define CLATTN_CPU_H

#include "engines/engine.h"

/* True if the arrays of a work-item with this tile fit its thread's stack. */
bool clattn_cpu_tile_fits(const struct clattn_tile *tile, const struct clattn_tile_query *query);

/* Options for cl/engines/cpu.cl. */
void clattn_cpu_define(struct clattn_program_spec *spec, const struct clattn_tile *tile);

#endif /* CLATTN_CPU_H */
