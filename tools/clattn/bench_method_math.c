/*
 * The quadratic method, as frameworks run it: every N x N matrix of the
 * textbook has memory of its own, products are CLBlast's batched SGEMM, and
 * what is between them is a kernel each (bench_math.cl). f16 and bf16 inputs
 * are widened to f32 first and results rounded at the end: CLBlast has no bf16,
 * and half products only where the device has cl_khr_fp16, which NVIDIA's
 * OpenCL has not.
 */
#include "bench_method.h"
#include "bench_sources.h"

#include <clblast_c.h>
#include <stdio.h>
#include <stdlib.h>

/* [B H, N, N] each. T is the tangent of what follows it, D the gradient in it. */
typedef enum matrix {
    SCORES,
    WEIGHTS,
    T_SCORES,
    T_WEIGHTS,
    D_WEIGHTS,
    D_SCORES,
    T_D_WEIGHTS,
    T_D_SCORES,
    MATRIX_COUNT
} matrix;

typedef enum math_kernel {
    WIDEN,
    NARROW,
    SOFTMAX_ROWS,
    CENTRE_ROWS,
    CENTRE_ROWS_TANGENT,
    KERNEL_COUNT
} math_kernel;

typedef struct math_run {
    bench_device *device;
    clattn_problem problem;
    clattn_operation operation;
    bench_spec spec;
    int64_t tangent;                     /* the one that is computed, 0 .. T - 1 */
    size_t heads, n, head_dim;           /* B H, N, D */
    cl_mem stored[CLATTN_TENSOR_COUNT];  /* in the problem's types */
    cl_mem widened[CLATTN_TENSOR_COUNT]; /* their f32 forms, where they are not f32 themselves */
    cl_mem matrices[MATRIX_COUNT];
    cl_program program;
    cl_kernel kernels[KERNEL_COUNT];
    size_t width;         /* work-items a row */
    bench_reason *reason; /* of the call under way */
} math_run;

/* ---- opening and closing ---- */

static void close_run(void *opened)
{
    math_run *run = opened;
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        bench_device_free(run->device, run->stored[t]);
        bench_device_free(run->device, run->widened[t]);
    }
    for (int m = 0; m < MATRIX_COUNT; m++)
        bench_device_free(run->device, run->matrices[m]);
    for (int k = 0; k < KERNEL_COUNT; k++)
        if (run->kernels[k])
            clReleaseKernel(run->kernels[k]);
    if (run->program)
        clReleaseProgram(run->program);
    free(run);
}

static bool make_kernels(math_run *run)
{
    static const char *const names[KERNEL_COUNT] = {"widen", "narrow", "softmax_rows", "centre_rows",
                                                    "centre_rows_tangent"};
    static const int elements[CLATTN_DTYPE_COUNT] = {[CLATTN_F32] = 0, [CLATTN_F16] = 1, [CLATTN_BF16] = 2};
    const char *text = bench_sources[0].text;
    char options[64];
    cl_int error;
    snprintf(options, sizeof options, "-DELEMENT=%d -DWIDTH=%zu", elements[run->problem.dtype], run->width);
    run->program = clCreateProgramWithSource(clattn_context_cl(run->device->context), 1, &text, NULL, &error);
    if (error == CL_SUCCESS)
        error = clBuildProgram(run->program, 1, &run->device->facts.id, options, NULL, NULL);
    for (int k = 0; k < KERNEL_COUNT && error == CL_SUCCESS; k++)
        run->kernels[k] = clCreateKernel(run->program, names[k], &error);
    return error == CL_SUCCESS || bench_refuse(run->reason, "kernels: OpenCL error %d", (int)error);
}

static bool make_tensor(math_run *run, clattn_tensor tensor, const void *data)
{
    const size_t bytes = clattn_problem_bytes(&run->problem, tensor);
    const size_t element = clattn_problem_element_size(&run->problem, tensor);
    const char *name = clattn_tensor_name(tensor);
    run->stored[tensor] = bench_device_buffer(run->device, name, bytes, data, run->reason);
    if (!run->stored[tensor])
        return false;
    /* masks and biases are read as they are stored */
    if (element == sizeof(float) || tensor == CLATTN_MASK || tensor == CLATTN_BIAS)
        return true;
    run->widened[tensor] =
        bench_device_buffer(run->device, name, bytes / element * sizeof(float), NULL, run->reason);
    return run->widened[tensor];
}

static bool make_tensors(math_run *run, const bench_case *given)
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        const bool is_lse = t == CLATTN_LSE || t == CLATTN_TLSE; /* no part of this method */
        if (run->problem.present[t] && !is_lse && !make_tensor(run, (clattn_tensor)t, given->inputs[t]))
            return false;
    }
    return true;
}

static bool make_matrices(math_run *run)
{
    static const unsigned needed[CLATTN_OPERATION_COUNT] = {
        [CLATTN_FORWARD] = 1 << SCORES | 1 << WEIGHTS,
        [CLATTN_JVP] = 1 << SCORES | 1 << WEIGHTS | 1 << T_SCORES | 1 << T_WEIGHTS,
        [CLATTN_VJP] = 1 << SCORES | 1 << WEIGHTS | 1 << D_WEIGHTS | 1 << D_SCORES,
        [CLATTN_HVP] = (1 << MATRIX_COUNT) - 1};
    const size_t bytes = run->heads * run->n * run->n * sizeof(float);
    for (int m = 0; m < MATRIX_COUNT; m++) {
        if (!(needed[run->operation] & 1u << m))
            continue;
        run->matrices[m] =
            bench_device_buffer(run->device, "a matrix of all pairs", bytes, NULL, run->reason);
        if (!run->matrices[m])
            return false;
    }
    return true;
}

static void *open_run(const bench_job *job, bench_reason *reason)
{
    const bench_spec *spec = &job->given->spec;
    math_run *run = calloc(1, sizeof *run);
    if (!run) {
        bench_refuse(reason, "out of memory");
        return NULL;
    }
    *run = (math_run){.device = job->device,
                      .spec = *spec,
                      .operation = job->operation,
                      .heads = (size_t)(spec->batch * spec->heads),
                      .n = (size_t)spec->seq_len,
                      .head_dim = (size_t)spec->head_dim,
                      .width = job->device->facts.is_cpu ? 16 : 128,
                      .reason = reason};
    bench_case_problem(spec, job->operation, &run->problem);
    if (make_matrices(run) && make_tensors(run, job->given) && make_kernels(run))
        return run;
    close_run(run);
    return NULL;
}

/* ---- steps ---- */

static cl_mem tensor_of(const math_run *run, clattn_tensor tensor)
{
    return run->widened[tensor] ? run->widened[tensor] : run->stored[tensor];
}

/* One launch; the arguments are the buffers and then the numbers. */
typedef struct step {
    math_kernel kernel;
    size_t items;
    size_t group; /* 0: any */
    int buffer_count, number_count;
    cl_mem buffers[5];
    cl_int numbers[3];
} step;

static bool launch(math_run *run, const step *what)
{
    cl_kernel kernel = run->kernels[what->kernel];
    cl_int error = CL_SUCCESS;
    cl_uint argument = 0;
    for (int i = 0; i < what->buffer_count && error == CL_SUCCESS; i++)
        error = clSetKernelArg(kernel, argument++, sizeof(cl_mem), &what->buffers[i]);
    for (int i = 0; i < what->number_count && error == CL_SUCCESS; i++)
        error = clSetKernelArg(kernel, argument++, sizeof(cl_int), &what->numbers[i]);
    if (error == CL_SUCCESS)
        error = clEnqueueNDRangeKernel(run->device->queue, kernel, 1, NULL, &what->items,
                                       what->group ? &what->group : NULL, 0, NULL, NULL);
    return error == CL_SUCCESS || bench_refuse(run->reason, "a kernel: OpenCL error %d", (int)error);
}

static bool convert(math_run *run, math_kernel kernel, clattn_tensor tensor, cl_mem from, cl_mem to)
{
    const size_t items = run->heads * (size_t)bench_case_head_size(&run->spec, tensor) *
                         (size_t)bench_case_tangents(&run->spec, tensor);
    const step what = {kernel, items, 0, 2, 0, {from, to}, {0}};
    return launch(run, &what);
}

static bool softmax(math_run *run)
{
    const step what = {
        SOFTMAX_ROWS,
        run->heads * run->n * run->width,
        run->width,
        4,
        3,
        {run->matrices[SCORES], run->matrices[WEIGHTS], run->stored[CLATTN_MASK], run->stored[CLATTN_BIAS]},
        {(cl_int)run->n, run->problem.causal != CLATTN_CAUSAL_NONE, run->spec.shares_mask}};
    return launch(run, &what);
}

/* to = P o (x - <P, x>) */
static bool centre(math_run *run, matrix x, matrix to)
{
    const step what = {CENTRE_ROWS,
                       run->heads * run->n * run->width,
                       run->width,
                       3,
                       1,
                       {run->matrices[WEIGHTS], run->matrices[x], run->matrices[to]},
                       {(cl_int)run->n}};
    return launch(run, &what);
}

/* The tangent of centre(D_WEIGHTS, D_SCORES). */
static bool centre_tangent(math_run *run)
{
    const step what = {CENTRE_ROWS_TANGENT,
                       run->heads * run->n * run->width,
                       run->width,
                       5,
                       1,
                       {run->matrices[WEIGHTS], run->matrices[D_WEIGHTS], run->matrices[T_WEIGHTS],
                        run->matrices[T_D_WEIGHTS], run->matrices[T_D_SCORES]},
                       {(cl_int)run->n}};
    return launch(run, &what);
}

/* ---- products, of all heads at once ---- */

typedef enum sum {
    SET,
    ADD
} sum;

/* The first element of the tangent that is computed, in what has tangents. */
static size_t offset_of(const math_run *run, clattn_tensor tensor)
{
    return bench_case_tangents(&run->spec, tensor) > 1
               ? (size_t)run->tangent * run->heads * run->n * run->head_dim
               : 0;
}

static bool report(math_run *run, CLBlastStatusCode status)
{
    return status == CLBlastSuccess || bench_refuse(run->reason, "CLBlast: error %d", (int)status);
}

/* to (+)= factor a b^T: all pairs of rows of two [B H, N, D] tensors. */
static bool pair(math_run *run, matrix to, clattn_tensor a, clattn_tensor b, float factor, sum how)
{
    const size_t n = run->n, d = run->head_dim;
    return report(run, CLBlastSgemmStridedBatched(
                           CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeYes, n, n, d, factor,
                           tensor_of(run, a), offset_of(run, a), d, n * d, tensor_of(run, b),
                           offset_of(run, b), d, n * d, how == ADD ? 1 : 0, run->matrices[to], 0, n, n * n,
                           run->heads, &run->device->queue, NULL));
}

/* to (+)= factor A b or factor A^T b: rows of a [B H, N, D] tensor, weighed. */
static bool weigh(math_run *run, clattn_tensor to, matrix a, CLBlastTranspose transposed, clattn_tensor b,
                  float factor, sum how)
{
    const size_t n = run->n, d = run->head_dim;
    return report(run, CLBlastSgemmStridedBatched(CLBlastLayoutRowMajor, transposed, CLBlastTransposeNo, n, d,
                                                  n, factor, run->matrices[a], 0, n, n * n, tensor_of(run, b),
                                                  offset_of(run, b), d, n * d, how == ADD ? 1 : 0,
                                                  tensor_of(run, to), offset_of(run, to), d, n * d,
                                                  run->heads, &run->device->queue, NULL));
}

/* ---- the operations ---- */

#define AS_IS CLBlastTransposeNo
#define TURNED CLBlastTransposeYes

/* P = softmax(s Q K^T), O = P V */
static bool forward(math_run *run)
{
    return pair(run, SCORES, CLATTN_Q, CLATTN_K, (float)run->problem.scale, SET) && softmax(run) &&
           weigh(run, CLATTN_O, WEIGHTS, AS_IS, CLATTN_V, 1, SET);
}

/* S' = s (Q' K^T + Q K'^T), P' = P o (S' - <P, S'>), O' = P' V + P V' */
static bool tangents(math_run *run)
{
    const float scale = (float)run->problem.scale;
    return pair(run, T_SCORES, CLATTN_TQ, CLATTN_K, scale, SET) &&
           pair(run, T_SCORES, CLATTN_Q, CLATTN_TK, scale, ADD) && centre(run, T_SCORES, T_WEIGHTS) &&
           weigh(run, CLATTN_TO, T_WEIGHTS, AS_IS, CLATTN_V, 1, SET) &&
           weigh(run, CLATTN_TO, WEIGHTS, AS_IS, CLATTN_TV, 1, ADD);
}

/* dP = dO V^T, dS = P o (dP - <P, dP>), dV = P^T dO, dQ = s dS K, dK = s dS^T Q */
static bool gradients(math_run *run)
{
    const float scale = (float)run->problem.scale;
    return pair(run, D_WEIGHTS, CLATTN_DO, CLATTN_V, 1, SET) && centre(run, D_WEIGHTS, D_SCORES) &&
           weigh(run, CLATTN_DV, WEIGHTS, TURNED, CLATTN_DO, 1, SET) &&
           weigh(run, CLATTN_DQ, D_SCORES, AS_IS, CLATTN_K, scale, SET) &&
           weigh(run, CLATTN_DK, D_SCORES, TURNED, CLATTN_Q, scale, SET);
}

/* The tangents of gradients(), product by product. */
static bool gradient_tangents(math_run *run)
{
    const float scale = (float)run->problem.scale;
    return pair(run, T_D_WEIGHTS, CLATTN_TDO, CLATTN_V, 1, SET) &&
           pair(run, T_D_WEIGHTS, CLATTN_DO, CLATTN_TV, 1, ADD) && centre_tangent(run) &&
           weigh(run, CLATTN_TDV, T_WEIGHTS, TURNED, CLATTN_DO, 1, SET) &&
           weigh(run, CLATTN_TDV, WEIGHTS, TURNED, CLATTN_TDO, 1, ADD) &&
           weigh(run, CLATTN_TDQ, T_D_SCORES, AS_IS, CLATTN_K, scale, SET) &&
           weigh(run, CLATTN_TDQ, D_SCORES, AS_IS, CLATTN_TK, scale, ADD) &&
           weigh(run, CLATTN_TDK, T_D_SCORES, TURNED, CLATTN_Q, scale, SET) &&
           weigh(run, CLATTN_TDK, D_SCORES, TURNED, CLATTN_TQ, scale, ADD);
}

/* Inputs before the operation, results after it. */
static bool convert_all(math_run *run, bool results)
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        const bool is_result = clattn_problem_is_output(&run->problem, run->operation, (clattn_tensor)t);
        if (!run->widened[t] || is_result != results)
            continue;
        const clattn_tensor tensor = (clattn_tensor)t;
        if (!(results ? convert(run, NARROW, tensor, run->widened[t], run->stored[t])
                      : convert(run, WIDEN, tensor, run->stored[t], run->widened[t])))
            return false;
    }
    return true;
}

static bool enqueue_run(void *opened, bench_reason *reason)
{
    math_run *run = opened;
    const bool has_tangents = run->operation == CLATTN_JVP || run->operation == CLATTN_HVP;
    const bool has_gradients = run->operation == CLATTN_VJP || run->operation == CLATTN_HVP;
    run->reason = reason;
    bool ok = convert_all(run, false) && forward(run) && (!has_gradients || gradients(run));
    for (run->tangent = 0; has_tangents && ok && run->tangent < run->spec.tangents; run->tangent++)
        ok = tangents(run) && (!has_gradients || gradient_tangents(run));
    return ok && convert_all(run, true);
}

static cl_mem result_of_run(const void *run, clattn_tensor tensor)
{
    return ((const math_run *)run)->stored[tensor];
}

static const char *engine_of_run(const void *run)
{
    (void)run;
    return "CLBlast";
}

const bench_method bench_method_math = {"math",        open_run,      enqueue_run,
                                        result_of_run, engine_of_run, close_run};
