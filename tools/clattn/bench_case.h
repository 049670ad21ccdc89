/*
 * One row of the benchmark: which problem it is, and the data that every
 * method is given. Knows nothing of methods or devices.
 */
#ifndef CLATTN_TOOL_BENCH_CASE_H
#define CLATTN_TOOL_BENCH_CASE_H

#include <clattn/clattn.h>

typedef enum bench_mask {
    BENCH_MASK_NONE,
    BENCH_MASK_BOOLEAN,  /* a tenth of the pairs attend */
    BENCH_MASK_ADDITIVE, /* the same as a bias: 0, or -100 where the pair does not attend */
    BENCH_MASK_COUNT
} bench_mask;

/* "none", "boolean", "additive" */
const char *bench_mask_name(bench_mask mask);

typedef struct bench_spec {
    clattn_operation operation;
    clattn_dtype dtype;
    int64_t batch, heads, seq_len, head_dim;
    int64_t tangents; /* T, of jvp and hvp */
    bench_mask mask;
    bool shares_mask; /* the mask is [1,1,N,N], else [B,H,N,N] */
    bool causal;      /* top left */
} bench_spec;

typedef struct bench_case {
    bench_spec spec;
    void *inputs[CLATTN_TENSOR_COUNT]; /* contiguous, in the types of the problem; NULL for those not made */
} bench_case;

/* N(0,1) inputs of all operations, and the mask. False when out of memory; to be freed in any case. */
bool bench_case_make(const bench_spec *spec, uint64_t seed, bench_case *made);
void bench_case_free(bench_case *made);

/* The problem of an operation on a spec's inputs, every tangent and cotangent of q, k, v, o given. */
void bench_case_problem(const bench_spec *spec, clattn_operation operation, clattn_problem *problem);

/* Elements of one head of a tensor of the problem, and how many tangents of it there are: T, or 1 of what is no
 * tangent. The heads of a tangent lie one after the other, the tangents too. */
int64_t bench_case_head_size(const bench_spec *spec, clattn_tensor tensor);
int64_t bench_case_tangents(const bench_spec *spec, clattn_tensor tensor);

/* Floating-point operations of the matrix products that the operation cannot do without: 2 B H N N D for each of the
 * forward pass's 2, the JVP's 2 + 4 T, the VJP's 5, the HVP's 5 + 10 T; half of it for causal. */
double bench_case_flops(const bench_spec *spec);

#endif /* CLATTN_TOOL_BENCH_CASE_H */
