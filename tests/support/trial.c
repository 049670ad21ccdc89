/* Trials: random data, its storage as the library wants it, the run, the judgement. */
#include "trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "half_bits.h"
#include "judge.h"
#include "random.h"
#include "round.h"

/* Padding around and between what the library may touch. */
#define POISON 0xa5

void trial_init(struct trial *trial, clattn_operation operation, const clattn_sizes *sizes)
{
    *trial = (struct trial){.operation = operation};
    clattn_problem_init(&trial->problem, operation, sizes);
    trial->problem.present[CLATTN_LSE_LOW] = false;
}

static bool is_gradient(clattn_operation operation)
{
    return operation == CLATTN_VJP || operation == CLATTN_HVP;
}

static bool has_tangents(clattn_operation operation)
{
    return operation == CLATTN_JVP || operation == CLATTN_HVP;
}

void trial_add_derivatives(struct trial *trial)
{
    bool *present = trial->problem.present;
    const bool tangents = has_tangents(trial->operation), gradients = is_gradient(trial->operation);
    present[CLATTN_TQ] = present[CLATTN_TK] = present[CLATTN_TV] = tangents;
    present[CLATTN_DLSE] = gradients;
    present[CLATTN_TDO] = present[CLATTN_TDLSE] = tangents && gradients;
}

void trial_add_bias(struct trial *trial, unsigned broadcast)
{
    bool *present = trial->problem.present;
    const bool tangents = has_tangents(trial->operation), gradients = is_gradient(trial->operation);
    present[CLATTN_BIAS] = true;
    present[CLATTN_TBIAS] = tangents;
    present[CLATTN_DBIAS] = gradients;
    present[CLATTN_TDBIAS] = tangents && gradients;
    trial_broadcast(trial, CLATTN_BIAS, broadcast);
}

/* Logical axes, T first: what clattn_problem_shape says, with 1 for axes that are not there. */
struct axes {
    int64_t size[5];
    int64_t stride[5];
};

static bool has_tangent_axis(clattn_tensor tensor)
{
    const char *name = clattn_tensor_name(tensor);
    return name[0] == 't';
}

static struct axes axes_of(const clattn_problem *problem, clattn_tensor tensor)
{
    struct axes axes = {{1, 1, 1, 1, 1}, {0}};
    int64_t shape[5];
    const int rank = clattn_problem_shape(problem, tensor, shape);
    const clattn_strides *s = &problem->strides[tensor];
    for (int i = 0; i < rank; i++)
        axes.size[5 - rank + i] = shape[i];
    if (has_tangent_axis(tensor))
        axes.size[0] = problem->tangents;
    const bool gradient_of_bias = tensor == CLATTN_DBIAS || tensor == CLATTN_TDBIAS;
    if (rank == 4 && !gradient_of_bias) {
        const bool pairs = tensor == CLATTN_BIAS || tensor == CLATTN_TBIAS || tensor == CLATTN_MASK ||
                           tensor == CLATTN_BLOCK_MASK;
        const int64_t strides[5] = {s->tangent, s->batch, s->head, s->row, pairs ? s->column : 1};
        memcpy(axes.stride, strides, sizeof strides);
        return axes;
    }
    int64_t stride = 1;
    for (int axis = 4; axis >= 0; axis--) {
        axes.stride[axis] = stride;
        stride *= axes.size[axis];
    }
    return axes;
}

static int64_t count_of(const struct axes *axes)
{
    int64_t count = 1;
    for (int i = 0; i < 5; i++)
        count *= axes->size[i];
    return count;
}

int64_t trial_count(const struct trial *trial, clattn_tensor tensor)
{
    const struct axes axes = axes_of(&trial->problem, tensor);
    return count_of(&axes);
}

/* Offset in elements of the n-th element in logical order. */
static int64_t offset_of(const struct axes *axes, int64_t n)
{
    int64_t offset = 0;
    for (int axis = 4; axis >= 0; axis--) {
        offset += n % axes->size[axis] * axes->stride[axis];
        n /= axes->size[axis];
    }
    return offset;
}

static enum number_format format_of(clattn_dtype dtype)
{
    switch (dtype) {
    case CLATTN_F16:
        return FORMAT_F16;
    case CLATTN_BF16:
        return FORMAT_BF16;
    case CLATTN_F64:
        return FORMAT_F64;
    default:
        return FORMAT_F32;
    }
}

/* How a tensor's elements are stored. */
enum storage {
    STORED_FLOAT,
    STORED_INT,
    STORED_BYTE
};

static enum storage storage_of(clattn_tensor tensor)
{
    switch (tensor) {
    case CLATTN_MASK:
    case CLATTN_BLOCK_MASK:
        return STORED_BYTE;
    case CLATTN_KV_LENGTHS:
    case CLATTN_Q_SEGMENTS:
    case CLATTN_KV_SEGMENTS:
    case CLATTN_CU_SEQLENS_Q:
    case CLATTN_CU_SEQLENS_K:
        return STORED_INT;
    default:
        return STORED_FLOAT;
    }
}

static enum number_format tensor_format(const clattn_problem *problem, clattn_tensor tensor)
{
    switch (tensor) {
    case CLATTN_Q:
    case CLATTN_K:
    case CLATTN_V:
    case CLATTN_TQ:
    case CLATTN_TK:
    case CLATTN_TV:
    case CLATTN_DO:
    case CLATTN_TDO:
        return format_of(problem->dtype);
    case CLATTN_BIAS:
    case CLATTN_TBIAS:
        return format_of(problem->bias_dtype);
    case CLATTN_O:
    case CLATTN_TO:
    case CLATTN_DQ:
    case CLATTN_DK:
    case CLATTN_DV:
    case CLATTN_TDQ:
    case CLATTN_TDK:
    case CLATTN_TDV:
        return format_of(problem->out_dtype);
    case CLATTN_ALIBI:
    case CLATTN_LOGIT_DATA:
        return FORMAT_F32;
    default:
        return problem->dtype == CLATTN_F64 ? FORMAT_F64 : FORMAT_F32;
    }
}

/* ---- random data ---- */

/* Rising offsets from 0 to at most `total`, with empty sequences among them. */
static void fill_offsets(double *values, int64_t count, int64_t total, uint64_t *state)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = i == 0 ? 0 : floor(random_uniform(state) * (double)(total + 1));
    for (int64_t i = 1; i < count; i++)
        for (int64_t j = i; j > 1 && values[j] < values[j - 1]; j--) {
            const double swap = values[j];
            values[j] = values[j - 1];
            values[j - 1] = swap;
        }
}

static double random_value(const struct trial *trial, clattn_tensor tensor, uint64_t *state)
{
    switch (tensor) {
    case CLATTN_MASK:
        return random_uniform(state) < 0.75;
    case CLATTN_BLOCK_MASK:
        return floor(random_uniform(state) * 3);
    case CLATTN_KV_LENGTHS:
        return floor(random_uniform(state) * (double)(trial->problem.keys + 1));
    case CLATTN_Q_SEGMENTS:
    case CLATTN_KV_SEGMENTS:
        return floor(random_uniform(state) * 4) - 1;
    case CLATTN_ALIBI:
        return round_to(FORMAT_F32, random_uniform(state) * 0.5);
    default:
        return round_to(tensor_format(&trial->problem, tensor), random_normal(state));
    }
}

/* Apart from that tensors' rows stand `row_gap` further apart. */
static void widen_rows(struct trial *trial)
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT && trial->row_gap > 0; t++) {
        int64_t shape[5];
        const bool pairs =
            t == CLATTN_BIAS || t == CLATTN_TBIAS || t == CLATTN_MASK || t == CLATTN_BLOCK_MASK;
        if (pairs || clattn_problem_shape(&trial->problem, (clattn_tensor)t, shape) != 4)
            continue;
        clattn_strides *s = &trial->problem.strides[t];
        s->row = shape[3] + trial->row_gap;
        s->head = s->row * (shape[2] > 0 ? shape[2] : 1);
        s->batch = s->head * (shape[1] > 0 ? shape[1] : 1);
        s->tangent = s->batch * (shape[0] > 0 ? shape[0] : 1);
    }
}

void trial_fill(struct trial *trial, uint64_t seed)
{
    trial_free(trial);
    widen_rows(trial);
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        const clattn_tensor tensor = (clattn_tensor)t;
        if (!trial->problem.present[t] || clattn_problem_is_output(&trial->problem, trial->operation, tensor))
            continue;
        uint64_t state = seed * 1000003 + (uint64_t)t;
        const int64_t count = trial_count(trial, tensor);
        trial->values[t] = malloc((size_t)(count + 1) * sizeof(double));
        for (int64_t i = 0; i < count; i++)
            trial->values[t][i] = random_value(trial, tensor, &state);
        if (tensor == CLATTN_CU_SEQLENS_Q || tensor == CLATTN_CU_SEQLENS_K)
            fill_offsets(trial->values[t], count,
                         tensor == CLATTN_CU_SEQLENS_Q ? trial->problem.queries : trial->problem.keys,
                         &state);
    }
}

void trial_broadcast(struct trial *trial, clattn_tensor tensor, unsigned axes)
{
    const clattn_problem *p = &trial->problem;
    const bool blocks = tensor == CLATTN_BLOCK_MASK;
    const int64_t all_rows = blocks ? (p->queries + p->block_rows - 1) / p->block_rows : p->queries;
    const int64_t all_columns = blocks ? (p->keys + p->block_columns - 1) / p->block_columns : p->keys;
    const int64_t rows = axes & 4 ? 1 : all_rows, columns = axes & 8 ? 1 : all_columns;
    const int64_t heads = axes & 2 ? 1 : p->heads_q;
    const clattn_strides strides = {
        .tangent = (axes & 1 ? 1 : p->batch) * heads * rows * columns,
        .batch = axes & 1 ? 0 : heads * rows * columns,
        .head = axes & 2 ? 0 : rows * columns,
        .row = axes & 4 ? 0 : columns,
        .column = axes & 8 ? 0 : 1,
    };
    trial->problem.strides[tensor] = strides;
    if (tensor == CLATTN_BIAS)
        trial->problem.strides[CLATTN_TBIAS] = strides;
}

void trial_free(struct trial *trial)
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        free(trial->values[t]);
        trial->values[t] = NULL;
    }
}

/* ---- storage ---- */

static void store(void *to, enum storage storage, enum number_format format, double value)
{
    if (storage == STORED_BYTE) {
        *(uint8_t *)to = (uint8_t)value;
    } else if (storage == STORED_INT) {
        const int32_t whole = (int32_t)value;
        memcpy(to, &whole, sizeof whole);
    } else if (format == FORMAT_F64) {
        memcpy(to, &value, sizeof value);
    } else if (format == FORMAT_F32) {
        const float single = (float)value;
        memcpy(to, &single, sizeof single);
    } else {
        const uint16_t bits = half_bits(format, value);
        memcpy(to, &bits, sizeof bits);
    }
}

static double load(const void *from, enum number_format format)
{
    if (format == FORMAT_F64) {
        double value;
        memcpy(&value, from, sizeof value);
        return value;
    }
    if (format == FORMAT_F32) {
        float value;
        memcpy(&value, from, sizeof value);
        return value;
    }
    uint16_t bits;
    memcpy(&bits, from, sizeof bits);
    return half_value(format, bits);
}

/* Memory for one tensor as the library sees it, everything outside its elements poisoned. */
static unsigned char *pack(const struct trial *trial, clattn_tensor tensor)
{
    const clattn_problem *p = &trial->problem;
    const size_t bytes = clattn_problem_bytes(p, tensor), element = clattn_problem_element_size(p, tensor);
    unsigned char *memory = malloc(bytes + 1);
    memset(memory, POISON, bytes + 1);
    /* all bits set is a NaN in every format */
    if (storage_of(tensor) == STORED_FLOAT)
        memset(memory, 0xff, bytes);
    if (!trial->values[tensor])
        return memory;
    const struct axes axes = axes_of(p, tensor);
    const int64_t count = count_of(&axes);
    for (int64_t n = 0; n < count; n++)
        store(memory + (size_t)offset_of(&axes, n) * element, storage_of(tensor), tensor_format(p, tensor),
              trial->values[tensor][n]);
    return memory;
}

/* An output in logical order; false in *clean if anything between its elements was written. */
static double *unpack(const struct trial *trial, clattn_tensor tensor, const unsigned char *memory,
                      bool *clean)
{
    const clattn_problem *p = &trial->problem;
    const size_t bytes = clattn_problem_bytes(p, tensor), element = clattn_problem_element_size(p, tensor);
    const struct axes axes = axes_of(p, tensor);
    const int64_t count = count_of(&axes);
    double *values = malloc((size_t)(count + 1) * sizeof *values);
    unsigned char *touched = calloc(1, bytes + 1);
    for (int64_t n = 0; n < count; n++) {
        const size_t at = (size_t)offset_of(&axes, n) * element;
        values[n] = load(memory + at, tensor_format(p, tensor));
        memset(touched + at, 1, element);
    }
    *clean = memory[bytes] == POISON;
    for (size_t i = 0; i < bytes; i++)
        *clean = *clean && (touched[i] || memory[i] == 0xff);
    free(touched);
    return values;
}

/* ---- the oracle's view ---- */

static void copy_shape(const clattn_problem *p, clattn_tensor tensor, int64_t to[4])
{
    int64_t shape[5];
    clattn_problem_shape(p, tensor, shape);
    memcpy(to, shape, 4 * sizeof *to);
}

/* Whole numbers of a tensor in the type that the oracle wants them in; one allocation each, freed by the caller. */
struct whole_numbers {
    uint8_t *mask, *block_mask;
    int32_t *kv_lengths, *q_segments, *kv_segments, *cu_seqlens_q, *cu_seqlens_k;
    float *logit_data;
};

static void *converted(const struct trial *trial, clattn_tensor tensor)
{
    if (!trial->values[tensor])
        return NULL;
    const int64_t count = trial_count(trial, tensor);
    const enum storage storage = storage_of(tensor);
    const size_t element = storage == STORED_BYTE ? 1 : 4;
    unsigned char *memory = malloc((size_t)(count + 1) * element);
    for (int64_t n = 0; n < count; n++)
        store(memory + (size_t)n * element, storage, FORMAT_F32, trial->values[tensor][n]);
    return memory;
}

static void free_whole_numbers(struct whole_numbers *whole)
{
    free(whole->mask);
    free(whole->block_mask);
    free(whole->kv_lengths);
    free(whole->q_segments);
    free(whole->kv_segments);
    free(whole->cu_seqlens_q);
    free(whole->cu_seqlens_k);
    free(whole->logit_data);
}

static void set_options(const struct trial *trial, struct oracle_problem *oracle)
{
    const clattn_problem *p = &trial->problem;
    oracle->tangents = p->tangents;
    /* the library computes with scale and softcap rounded to the type that it computes in */
    const bool f64 = p->dtype == CLATTN_F64;
    oracle->scale = f64 ? p->scale : (float)p->scale;
    oracle->softcap = f64 ? p->softcap : (float)p->softcap;
    oracle->causal = (enum oracle_causal)p->causal;
    oracle->window_left = p->window_left;
    oracle->window_right = p->window_right;
    oracle->block_rows = p->block_rows;
    oracle->block_columns = p->block_columns;
    oracle->dropout = p->dropout;
    oracle->dropout_seed = p->dropout_seed;
    oracle->dropout_offset = p->dropout_offset;
    oracle->logit = trial->logit;
    copy_shape(p, CLATTN_BIAS, oracle->bias_shape);
    copy_shape(p, CLATTN_MASK, oracle->mask_shape);
    copy_shape(p, CLATTN_BLOCK_MASK, oracle->block_mask_shape);
}

static void oracle_view(const struct trial *trial, struct oracle_problem *oracle, struct whole_numbers *whole)
{
    const clattn_problem *p = &trial->problem;
    double *const *values = trial->values;
    oracle_problem_init(oracle, &(struct oracle_sizes){p->batch, p->heads_q, p->heads_kv, p->queries, p->keys,
                                                       p->head_dim, p->head_dim_v});
    set_options(trial, oracle);
    *whole = (struct whole_numbers){
        .mask = converted(trial, CLATTN_MASK),
        .block_mask = converted(trial, CLATTN_BLOCK_MASK),
        .kv_lengths = converted(trial, CLATTN_KV_LENGTHS),
        .q_segments = converted(trial, CLATTN_Q_SEGMENTS),
        .kv_segments = converted(trial, CLATTN_KV_SEGMENTS),
        .cu_seqlens_q = converted(trial, CLATTN_CU_SEQLENS_Q),
        .cu_seqlens_k = converted(trial, CLATTN_CU_SEQLENS_K),
        .logit_data = converted(trial, CLATTN_LOGIT_DATA),
    };
    oracle->mask = whole->mask;
    oracle->block_mask = whole->block_mask;
    oracle->kv_lengths = whole->kv_lengths;
    oracle->q_segments = whole->q_segments;
    oracle->kv_segments = whole->kv_segments;
    oracle->cu_seqlens_q = whole->cu_seqlens_q;
    oracle->cu_seqlens_k = whole->cu_seqlens_k;
    oracle->logit_data = whole->logit_data;
    oracle->q = values[CLATTN_Q], oracle->k = values[CLATTN_K], oracle->v = values[CLATTN_V];
    oracle->bias = values[CLATTN_BIAS], oracle->alibi = values[CLATTN_ALIBI],
    oracle->sink = values[CLATTN_SINK];
    oracle->tq = values[CLATTN_TQ], oracle->tk = values[CLATTN_TK], oracle->tv = values[CLATTN_TV];
    oracle->tbias = values[CLATTN_TBIAS], oracle->tsink = values[CLATTN_TSINK];
    oracle->do_ = values[CLATTN_DO], oracle->dlse = values[CLATTN_DLSE];
    oracle->tdo = values[CLATTN_TDO], oracle->tdlse = values[CLATTN_TDLSE];
}

/* ---- the run ---- */

static const struct {
    clattn_tensor tensor;
    enum oracle_output output;
} judged[] = {
    {CLATTN_O, ORACLE_O},           {CLATTN_LSE, ORACLE_LSE},       {CLATTN_TO, ORACLE_TO},
    {CLATTN_TLSE, ORACLE_TLSE},     {CLATTN_DQ, ORACLE_DQ},         {CLATTN_DK, ORACLE_DK},
    {CLATTN_DV, ORACLE_DV},         {CLATTN_DBIAS, ORACLE_DBIAS},   {CLATTN_DSINK, ORACLE_DSINK},
    {CLATTN_TDQ, ORACLE_TDQ},       {CLATTN_TDK, ORACLE_TDK},       {CLATTN_TDV, ORACLE_TDV},
    {CLATTN_TDBIAS, ORACLE_TDBIAS}, {CLATTN_TDSINK, ORACLE_TDSINK},
};
#define JUDGED ((int)(sizeof judged / sizeof *judged))

/* The oracle's answers; the plain f32 ones are made when a bar is not met without them. */
struct answers {
    struct oracle_problem problem;
    struct oracle_result exact, plain;
    bool has_plain;
};

/* The oracle's values, save that one beyond the range of the type the output is stored in is the infinity that
 * rounding makes of it. To be freed. */
static double *reference_in_range(const clattn_problem *problem, clattn_tensor tensor,
                                  const struct oracle_array *exact)
{
    double *reference = malloc((size_t)(exact->count + 1) * sizeof *reference);
    for (int64_t n = 0; n < exact->count; n++) {
        const double rounded = round_to(tensor_format(problem, tensor), exact->values[n]);
        reference[n] = isfinite(rounded) ? exact->values[n] : rounded;
    }
    return reference;
}

/* f64 results that were rounded to f32, or are made from an O that was, are held to what f32 can hold. */
static enum number_format judged_format(const clattn_problem *problem, clattn_tensor tensor)
{
    if (problem->dtype != CLATTN_F64)
        return format_of(problem->dtype);
    return problem->forward_given ? format_of(problem->out_dtype) : tensor_format(problem, tensor);
}

static struct judge_verdict verdict_of(const struct trial *trial, struct answers *answers, int n,
                                       const double *ours)
{
    const enum oracle_operation operation = (enum oracle_operation)trial->operation;
    const struct oracle_array *exact = &answers->exact.outputs[judged[n].output];
    double *reference = reference_in_range(&trial->problem, judged[n].tensor, exact);
    struct judge_case given = {
        .ours = ours,
        .reference = reference,
        .count = exact->count,
        .row_length = exact->row_length,
        .size = exact->size,
        .bar = judge_bar(judged_format(&trial->problem, judged[n].tensor), operation),
        .grain = tensor_format(&trial->problem, judged[n].tensor) == FORMAT_F16 ? 0x1p-25 : 0,
    };
    struct judge_verdict verdict = judge(&given);
    if (!verdict.passes && trial->problem.dtype != CLATTN_F64) {
        if (!answers->has_plain)
            oracle_compute_f32(operation, &answers->problem, &answers->plain);
        answers->has_plain = true;
        given.plain_f32 = answers->plain.outputs[judged[n].output].values;
        verdict = judge(&given);
    }
    free(reference);
    return verdict;
}

static bool is_output(const struct trial *trial, clattn_tensor tensor)
{
    return trial->problem.present[tensor] &&
           clattn_problem_is_output(&trial->problem, trial->operation, tensor);
}

clattn_status trial_compute(clattn_context *context, const struct trial *trial,
                            double *outputs[CLATTN_TENSOR_COUNT], bool *clean)
{
    unsigned char *memory[CLATTN_TENSOR_COUNT] = {NULL};
    void *arrays[CLATTN_TENSOR_COUNT] = {NULL};
    *clean = true;
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        outputs[t] = NULL;
        if (trial->problem.present[t])
            arrays[t] = memory[t] = pack(trial, (clattn_tensor)t);
    }
    const clattn_status status = clattn_compute(context, trial->operation, &trial->problem, arrays);
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        bool this_clean = true;
        if (status == CLATTN_SUCCESS && is_output(trial, (clattn_tensor)t))
            outputs[t] = unpack(trial, (clattn_tensor)t, memory[t], &this_clean);
        *clean = *clean && this_clean;
        free(memory[t]);
    }
    return status;
}

static void judge_output(const struct trial *trial, struct answers *answers, int n, const double *ours,
                         struct trial_report *report)
{
    const struct judge_verdict verdict = verdict_of(trial, answers, n, ours);
    if (verdict.allowed > 0 && verdict.error / verdict.allowed > report->worst)
        report->worst = verdict.error / verdict.allowed;
    if (report->passed && !verdict.passes)
        snprintf(report->message, sizeof report->message,
                 "%s: relative error %.3g (%.3g, allowed %.3g), maximum %.3g, first row not finite in one "
                 "only: %lld",
                 clattn_tensor_name(judged[n].tensor), verdict.relative, verdict.error, verdict.allowed,
                 verdict.max_absolute, (long long)verdict.bad_row);
    report->passed = report->passed && verdict.passes;
}

static void judge_outputs(const struct trial *trial, double *const outputs[], struct trial_report *report)
{
    struct answers answers = {.has_plain = false};
    struct whole_numbers whole;
    oracle_view(trial, &answers.problem, &whole);
    oracle_compute((enum oracle_operation)trial->operation, &answers.problem, &answers.exact);
    for (int n = 0; n < JUDGED; n++)
        if (outputs[judged[n].tensor])
            judge_output(trial, &answers, n, outputs[judged[n].tensor], report);
    oracle_result_free(&answers.exact);
    if (answers.has_plain)
        oracle_result_free(&answers.plain);
    free_whole_numbers(&whole);
}

void trial_run(clattn_context *context, const struct trial *trial, struct trial_report *report)
{
    double *outputs[CLATTN_TENSOR_COUNT];
    bool clean;
    *report = (struct trial_report){.passed = true};
    report->status = trial_compute(context, trial, outputs, &clean);
    if (report->status == CLATTN_SUCCESS) {
        judge_outputs(trial, outputs, report);
        if (!clean && report->passed)
            snprintf(report->message, sizeof report->message, "memory between an output's rows was written");
    } else {
        snprintf(report->message, sizeof report->message, "%s", clattn_message());
    }
    report->passed = report->passed && clean && report->status == CLATTN_SUCCESS;
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        free(outputs[t]);
}
