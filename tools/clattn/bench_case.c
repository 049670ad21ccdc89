/*
 * One row of the benchmark: its problem and its data.
 */
#include "bench_case.h"

#include "convert.h"
#include "support/random.h"
#include "tensors.h"

#include <stdlib.h>
#include <string.h>

/* What the benchmark of jvp_flash_attention takes: nine in ten pairs are masked out, by a constant where the mask is
 * added. */
#define ATTENDING 0.1
#define MASKED_OUT -100.0

const char *bench_mask_name(bench_mask mask)
{
    static const char *const names[BENCH_MASK_COUNT] = {"none", "boolean", "additive"};
    return names[mask];
}

void bench_case_problem(const bench_spec *spec, clattn_operation operation, clattn_problem *problem)
{
    const clattn_sizes sizes = {spec->batch,   spec->heads,    spec->heads,   spec->seq_len,
                                spec->seq_len, spec->head_dim, spec->head_dim};
    clattn_problem_init(problem, operation, &sizes);
    problem->dtype = problem->out_dtype = problem->bias_dtype = spec->dtype;
    problem->causal = spec->causal ? CLATTN_CAUSAL_TOP_LEFT : CLATTN_CAUSAL_NONE;
    problem->tangents = spec->tangents;
    clattn_problem_set_contiguous(problem, false);
    problem->present[CLATTN_LSE_LOW] = false;
    problem->present[CLATTN_MASK] = spec->mask == BENCH_MASK_BOOLEAN;
    problem->present[CLATTN_BIAS] = spec->mask == BENCH_MASK_ADDITIVE;
    if (spec->shares_mask) {
        problem->strides[CLATTN_MASK].batch = problem->strides[CLATTN_MASK].head = 0;
        problem->strides[CLATTN_BIAS].batch = problem->strides[CLATTN_BIAS].head = 0;
    }
    const bool tangents = operation == CLATTN_JVP || operation == CLATTN_HVP;
    problem->present[CLATTN_TQ] = problem->present[CLATTN_TK] = problem->present[CLATTN_TV] = tangents;
    problem->present[CLATTN_TDO] = operation == CLATTN_HVP;
}

int64_t bench_case_head_size(const bench_spec *spec, clattn_tensor tensor)
{
    const bool pairs = tensor == CLATTN_BIAS || tensor == CLATTN_MASK;
    return spec->seq_len * (pairs ? spec->seq_len : spec->head_dim);
}

int64_t bench_case_tangents(const bench_spec *spec, clattn_tensor tensor)
{
    return tensor_axes(tensor)[0] == 'T' ? spec->tangents : 1;
}

double bench_case_flops(const bench_spec *spec)
{
    const double t = (double)spec->tangents;
    const double products[CLATTN_OPERATION_COUNT] = {
        [CLATTN_FORWARD] = 2, [CLATTN_JVP] = 2 + 4 * t, [CLATTN_VJP] = 5, [CLATTN_HVP] = 5 + 10 * t};
    const double pairs = (double)spec->batch * (double)spec->heads * (double)spec->seq_len *
                         (double)spec->seq_len * (spec->causal ? 0.5 : 1);
    return products[spec->operation] * 2 * pairs * (double)spec->head_dim;
}

/* ---- random data ---- */

static void fill(void *array, clattn_tensor tensor, clattn_dtype dtype, size_t count, uint64_t seed)
{
    uint64_t state = seed * 1000003 + (uint64_t)(tensor == CLATTN_BIAS ? CLATTN_MASK : tensor);
    for (size_t i = 0; i < count; i++) {
        if (tensor == CLATTN_MASK)
            ((uint8_t *)array)[i] = random_uniform(&state) < ATTENDING;
        else if (tensor == CLATTN_BIAS)
            convert_store(array, dtype, i, random_uniform(&state) < ATTENDING ? 0 : MASKED_OUT);
        else
            convert_store(array, dtype, i, random_normal(&state));
    }
}

bool bench_case_make(const bench_spec *spec, uint64_t seed, bench_case *made)
{
    *made = (bench_case){.spec = *spec};
    clattn_problem problem; /* the HVP has the inputs of all operations */
    bench_case_problem(spec, CLATTN_HVP, &problem);
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        const clattn_tensor tensor = (clattn_tensor)t;
        if (!problem.present[t] || clattn_problem_is_output(&problem, CLATTN_HVP, tensor))
            continue;
        const size_t bytes = clattn_problem_bytes(&problem, tensor);
        made->inputs[t] = malloc(bytes);
        if (!made->inputs[t])
            return false;
        fill(made->inputs[t], tensor, spec->dtype, bytes / clattn_problem_element_size(&problem, tensor),
             seed);
    }
    return true;
}

void bench_case_free(bench_case *made)
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        free(made->inputs[t]);
    memset(made->inputs, 0, sizeof made->inputs);
}
