/*
 * A trial: one problem with data, computed by the library on one device and
 * judged by the oracle. Tests and `clattn check` are lists of trials. Uses the
 * library through its public header only.
 */
#ifndef TRIAL_H
#define TRIAL_H

#include <stdint.h>

#include "clattn/clattn.h"
#include "oracle/oracle.h"

/* Fill it with trial_init, set options, strides and present[] in `problem`,
 * call trial_fill, change single values, then trial_run. */
struct trial {
    clattn_operation operation;
    clattn_problem problem;
    /* Inputs in logical order, contiguous, tangents with a leading T, rounded to the type they are stored in;
     * owned by the trial. Integers and bytes are whole numbers. Outputs are NULL. */
    double *values[CLATTN_TENSOR_COUNT];
    oracle_logit *logit; /* the caller's logit function, as C */
    /* Each named tensor of [B,H,S,D] gets rows this many elements apart from packed; gaps hold NaN. */
    int64_t row_gap;
};

/* What came of it. */
struct trial_report {
    bool passed;
    clattn_status status; /* of the library */
    char message[512];    /* what failed, in one line: the output, its error and what was allowed */
    double worst;         /* the largest error / allowed of all outputs */
};

void trial_init(struct trial *trial, clattn_operation operation, const clattn_sizes *sizes);

/* Makes every tangent and cotangent of Q, K, V, O and L present that the operation has. */
void trial_add_derivatives(struct trial *trial);

/* Makes BIAS present, broadcast as trial_broadcast takes it, with its tangent and gradients as the operation has. */
void trial_add_bias(struct trial *trial, unsigned broadcast);

/* Random data for every input that is present: N(0,1) tensors, masks 3/4 true, lengths anywhere. The same seed
 * gives the same data. Frees what an earlier call made. */
void trial_fill(struct trial *trial, uint64_t seed);

/* Makes an axis of BIAS (with TBIAS, if there) MASK or BLOCK_MASK broadcast: bit 0 batch, 1 head, 2 row, 3 column. Before
 * trial_fill. */
void trial_broadcast(struct trial *trial, clattn_tensor tensor, unsigned axes);

/* Elements of an input as `values` holds them. */
int64_t trial_count(const struct trial *trial, clattn_tensor tensor);

/* Computes by clattn_compute. Outputs come back in logical order, to be freed by the caller; *clean is false if
 * memory between an output's elements was written. */
clattn_status trial_compute(clattn_context *context, const struct trial *trial,
                            double *outputs[CLATTN_TENSOR_COUNT], bool *clean);

/* Computes, compares every output with the oracle by section "being right" of the design,
 * and checks that nothing but the outputs was written. */
void trial_run(clattn_context *context, const struct trial *trial, struct trial_report *report);

void trial_free(struct trial *trial);

#endif /* TRIAL_H */
