/*
 * Results of the benchmark against the oracle, head by head.
 */
#include "bench_judge.h"

#include "convert.h"
#include "support/judge.h"

#include <pthread.h>
#include <stdlib.h>

/* One head's problem as the oracle sees it, and its answers. */
typedef struct judged_head {
    int64_t head; /* of B H */
    clattn_operation operation;
    struct oracle_problem problem;
    double *inputs[CLATTN_TENSOR_COUNT];
    uint8_t *mask;
    struct oracle_result exact, plain; /* plain f32: made when a bar is not met without it */
    bool has_plain;
    pthread_t thread;
    bool has_thread;
} judged_head;

struct bench_judge {
    const bench_case *given;
    clattn_problem problem; /* of all heads */
    clattn_operation operation;
    int count;
    judged_head heads[];
};

static const struct {
    clattn_tensor tensor;
    enum oracle_output output;
} judged[] = {
    {CLATTN_O, ORACLE_O},   {CLATTN_TO, ORACLE_TO},   {CLATTN_DQ, ORACLE_DQ},   {CLATTN_DK, ORACLE_DK},
    {CLATTN_DV, ORACLE_DV}, {CLATTN_TDQ, ORACLE_TDQ}, {CLATTN_TDK, ORACLE_TDK}, {CLATTN_TDV, ORACLE_TDV},
};
enum {
    JUDGED_COUNT = sizeof judged / sizeof judged[0]
};

/* ---- the oracle's view of one head ---- */

static int64_t head_count(const bench_spec *spec) { return spec->batch * spec->heads; }

/* The first element of a head, of one of the tangents. */
static int64_t head_offset(const bench_spec *spec, clattn_tensor tensor, int64_t tangent, int64_t head)
{
    const bool pairs = tensor == CLATTN_BIAS || tensor == CLATTN_MASK;
    const int64_t before = pairs && spec->shares_mask ? 0 : tangent * head_count(spec) + head;
    return before * bench_case_head_size(spec, tensor);
}

static bool slice_input(const bench_judge *bench, judged_head *head, clattn_tensor tensor)
{
    const bench_spec *spec = &bench->given->spec;
    const int64_t size = bench_case_head_size(spec, tensor), tangents = bench_case_tangents(spec, tensor);
    double *slice = malloc((size_t)(tangents * size) * sizeof *slice);
    head->inputs[tensor] = slice;
    for (int64_t t = 0; slice && t < tangents; t++) {
        const int64_t first = head_offset(spec, tensor, t, head->head);
        for (int64_t i = 0; i < size; i++)
            slice[t * size + i] =
                convert_load(bench->given->inputs[tensor], spec->dtype, (size_t)(first + i));
    }
    return slice;
}

static bool slice_inputs(const bench_judge *bench, judged_head *head)
{
    const bench_case *given = bench->given;
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        const bool wanted = bench->problem.present[t] && given->inputs[t] && t != CLATTN_MASK;
        if (wanted && !slice_input(bench, head, (clattn_tensor)t))
            return false;
    }
    if (given->inputs[CLATTN_MASK])
        head->mask =
            (uint8_t *)given->inputs[CLATTN_MASK] + head_offset(&given->spec, CLATTN_MASK, 0, head->head);
    return true;
}

static void set_problem(const bench_judge *bench, judged_head *head)
{
    const bench_spec *spec = &bench->given->spec;
    struct oracle_problem *p = &head->problem;
    double **inputs = head->inputs;
    oracle_problem_init(
        p, &(struct oracle_sizes){1, 1, 1, spec->seq_len, spec->seq_len, spec->head_dim, spec->head_dim});
    p->tangents = spec->tangents;
    p->scale = (float)bench->problem.scale; /* as the kernels have it */
    p->causal = spec->causal ? ORACLE_CAUSAL_TOP_LEFT : ORACLE_CAUSAL_NONE;
    p->mask = head->mask;
    p->bias = inputs[CLATTN_BIAS];
    for (int axis = 0; axis < 4; axis++)
        p->mask_shape[axis] = p->bias_shape[axis] = axis < 2 ? 1 : spec->seq_len;
    p->q = inputs[CLATTN_Q], p->k = inputs[CLATTN_K], p->v = inputs[CLATTN_V];
    p->tq = inputs[CLATTN_TQ], p->tk = inputs[CLATTN_TK], p->tv = inputs[CLATTN_TV];
    p->do_ = inputs[CLATTN_DO], p->tdo = inputs[CLATTN_TDO];
}

static void *compute_head(void *argument)
{
    judged_head *head = argument;
    oracle_compute((enum oracle_operation)head->operation, &head->problem, &head->exact);
    return NULL;
}

/* ---- making and freeing ---- */

void bench_judge_free(bench_judge *bench)
{
    for (int i = 0; bench && i < bench->count; i++) {
        judged_head *head = &bench->heads[i];
        for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
            free(head->inputs[t]);
        oracle_result_free(&head->exact);
        oracle_result_free(&head->plain);
    }
    free(bench);
}

/* A head that gets no thread is computed here. */
static void compute_heads(bench_judge *bench)
{
    for (int i = 0; i < bench->count; i++) {
        judged_head *head = &bench->heads[i];
        head->has_thread = pthread_create(&head->thread, NULL, compute_head, head) == 0;
        if (!head->has_thread)
            compute_head(head);
    }
    for (int i = 0; i < bench->count; i++)
        if (bench->heads[i].has_thread)
            pthread_join(bench->heads[i].thread, NULL);
}

bench_judge *bench_judge_make(const bench_case *given, clattn_operation operation, int heads)
{
    const int64_t all = head_count(&given->spec);
    const int count = heads < all ? heads : (int)all;
    bench_judge *bench = calloc(1, sizeof *bench + (size_t)count * sizeof bench->heads[0]);
    if (!bench)
        return NULL;
    bench->given = given;
    bench->operation = operation;
    bench->count = count;
    bench_case_problem(&given->spec, operation, &bench->problem);
    for (int i = 0; i < count; i++) {
        judged_head *head = &bench->heads[i];
        head->head = count > 1 ? i * (all - 1) / (count - 1) : 0;
        head->operation = operation;
        if (!slice_inputs(bench, head)) {
            bench_judge_free(bench);
            return NULL;
        }
        set_problem(bench, head);
    }
    compute_heads(bench);
    return bench;
}

/* ---- judging ---- */

/* One head of one tangent of a result, through `stored`, as doubles. */
static cl_int read_piece(const bench_judge *bench, cl_mem memory, int64_t first, size_t count,
                         bench_device *device, void *stored, double *values)
{
    const clattn_dtype dtype = bench->problem.out_dtype;
    const size_t element = convert_size(dtype);
    const cl_int error = clEnqueueReadBuffer(device->queue, memory, CL_TRUE, (size_t)first * element,
                                             count * element, stored, 0, NULL, NULL);
    for (size_t i = 0; error == CL_SUCCESS && i < count; i++)
        values[i] = convert_load(stored, dtype, i);
    return error;
}

/* One head of a result, all its tangents, as doubles, to be freed. */
static double *read_head(const bench_judge *bench, cl_mem memory, clattn_tensor tensor, int64_t head,
                         bench_device *device, bench_reason *reason)
{
    const bench_spec *spec = &bench->given->spec;
    const size_t count = (size_t)bench_case_head_size(spec, tensor);
    const int64_t tangents = bench_case_tangents(spec, tensor);
    void *stored = malloc(count * convert_size(bench->problem.out_dtype));
    double *values = malloc((size_t)tangents * count * sizeof *values);
    cl_int error = stored && values ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    for (int64_t t = 0; error == CL_SUCCESS && t < tangents; t++)
        error = read_piece(bench, memory, head_offset(spec, tensor, t, head), count, device, stored,
                           values + (size_t)t * count);
    free(stored);
    if (error == CL_SUCCESS)
        return values;
    free(values);
    bench_refuse(reason, "reading %s: OpenCL error %d", clattn_tensor_name(tensor), (int)error);
    return NULL;
}

static enum number_format format_of(clattn_dtype dtype)
{
    return dtype == CLATTN_F16 ? FORMAT_F16 : dtype == CLATTN_BF16 ? FORMAT_BF16 : FORMAT_F32;
}

static struct judge_verdict verdict_of(const bench_judge *bench, judged_head *head, int n, const double *ours)
{
    const enum oracle_output output = judged[n].output;
    const enum number_format format = format_of(bench->problem.dtype);
    const struct oracle_array *exact = &head->exact.outputs[output];
    struct judge_case given = {
        .ours = ours,
        .reference = exact->values,
        .count = exact->count,
        .row_length = exact->row_length,
        .size = exact->size,
        .bar = judge_bar(format, (enum oracle_operation)bench->operation),
        .grain = format == FORMAT_F16 ? 0x1p-25 : 0,
    };
    struct judge_verdict verdict = judge(&given);
    if (verdict.passes)
        return verdict;
    if (!head->has_plain)
        oracle_compute_f32((enum oracle_operation)bench->operation, &head->problem, &head->plain);
    head->has_plain = true;
    given.plain_f32 = head->plain.outputs[output].values;
    return judge(&given);
}

static bool judge_head(bench_judge *bench, judged_head *head, const bench_method *method, const void *run,
                       bench_device *device, bench_verdict *verdict, bench_reason *reason)
{
    for (int n = 0; n < JUDGED_COUNT; n++) {
        const clattn_tensor tensor = judged[n].tensor;
        if (!clattn_problem_is_output(&bench->problem, bench->operation, tensor))
            continue;
        double *ours = read_head(bench, method->result(run, tensor), tensor, head->head, device, reason);
        if (!ours)
            return false;
        const struct judge_verdict found = verdict_of(bench, head, n, ours);
        free(ours);
        verdict->passes = verdict->passes && found.passes;
        if (found.max_absolute > verdict->max_error)
            verdict->max_error = found.max_absolute;
    }
    return true;
}

bool bench_judge_run(bench_judge *bench, const bench_method *method, const void *run, bench_device *device,
                     bench_verdict *verdict, bench_reason *reason)
{
    for (int i = 0; i < bench->count; i++)
        if (!judge_head(bench, &bench->heads[i], method, run, device, verdict, reason))
            return false;
    return true;
}
