/* A plan from inside: the choice that was made, the launches it stands for, where its scratch lies. */
#ifndef CLATTN_PLAN_H
#define CLATTN_PLAN_H

#include <pthread.h>

#include "common/params.h"
#include "context.h"
#include "engines/engine.h"

/* One kernel launch; launches of a plan run one after the other. */
struct clattn_launch {
    cl_kernel kernel;
    size_t global; /* work-items */
    size_t local;  /* 0: the driver's choice */
    int tangent_first;
};

struct clattn_plan {
    clattn_context *context;
    clattn_operation operation;
    clattn_problem problem;
    const struct clattn_engine *engine;
    struct clattn_tile tile;
    int splits; /* of the keys in the forward pass; 1: whole */
    int slices; /* of the keys, where gradients are computed in one pass; else 1 */
    char reason[256];
    cl_mem params; /* struct attention_params */

    /* Tensors that live in the caller's workspace: byte offset, or -1. */
    int64_t scratch_at[SLOT_COUNT];
    uint64_t workspace_bytes;

    struct clattn_launch *launches;
    int launch_count;
    pthread_mutex_t lock; /* over the kernels' arguments, from setting them to enqueueing */
};

#endif
