/*
 * The rules of oracle_rules.h, each as the option's meaning states it. Knows
 * no precision and no derivative.
 */
#include "oracle_rules.h"

#include <math.h>
#include <stdlib.h>

/* ---- Places and shapes ---- */

static int64_t clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

static bool is_packed(const struct oracle_problem *problem) { return problem->cu_seqlens_q != NULL; }

static int64_t array_batches(const struct oracle_problem *problem)
{
    return is_packed(problem) ? 1 : problem->sizes.batch;
}

struct oracle_place oracle_place_of(const struct oracle_problem *problem, int64_t b, int64_t h)
{
    const struct oracle_sizes *sizes = &problem->sizes;
    struct oracle_place place = {.b = b, .h = h, .m = sizes->queries, .n = sizes->keys, .array_batch = b};
    if (problem->kv_lengths)
        place.n = clamp(problem->kv_lengths[b], 0, sizes->keys);
    if (is_packed(problem)) {
        place.array_batch = 0;
        place.query0 = problem->cu_seqlens_q[b];
        place.key0 = problem->cu_seqlens_k[b];
        place.m = problem->cu_seqlens_q[b + 1] - place.query0;
        place.n = problem->cu_seqlens_k[b + 1] - place.key0;
    }
    int64_t h_kv = h / (sizes->heads_q / sizes->heads_kv);
    place.q_row = (place.array_batch * sizes->heads_q + h) * sizes->queries + place.query0;
    place.k_row = (place.array_batch * sizes->heads_kv + h_kv) * sizes->keys + place.key0;
    return place;
}

/* Element [a0, a1, a2, a3] of an array in which axes of length 1 are broadcast. */
static int64_t element(const int64_t shape[4], const int64_t index[4])
{
    int64_t at = 0;
    for (int axis = 0; axis < 4; axis++)
        at = at * shape[axis] + (shape[axis] == 1 ? 0 : index[axis]);
    return at;
}

int64_t oracle_broadcast_index(const int64_t shape[4], const struct oracle_place *place, int64_t i, int64_t j)
{
    return element(shape, (int64_t[4]){place->array_batch, place->h, place->query0 + i, place->key0 + j});
}

int64_t oracle_query_rows(const struct oracle_problem *problem)
{
    return array_batches(problem) * problem->sizes.heads_q * problem->sizes.queries;
}

int64_t oracle_key_rows(const struct oracle_problem *problem)
{
    return array_batches(problem) * problem->sizes.heads_kv * problem->sizes.keys;
}

int64_t oracle_elements(const int64_t shape[4]) { return shape[0] * shape[1] * shape[2] * shape[3]; }

/* ---- Which pairs attend ---- */

int64_t oracle_diagonal(const struct oracle_place *place, int64_t i) { return i + place->n - place->m; }

static bool causal_allows(const struct oracle_problem *problem, const struct oracle_place *place, int64_t i,
                          int64_t j)
{
    switch (problem->causal) {
    case ORACLE_CAUSAL_TOP_LEFT:
        return j <= i;
    case ORACLE_CAUSAL_BOTTOM_RIGHT:
        return j <= oracle_diagonal(place, i);
    default:
        return true;
    }
}

static bool window_allows(const struct oracle_problem *problem, const struct oracle_place *place, int64_t i,
                          int64_t j)
{
    int64_t diagonal = problem->causal == ORACLE_CAUSAL_TOP_LEFT ? i : oracle_diagonal(place, i);
    bool left = problem->window_left < 0 || j >= diagonal - problem->window_left;
    bool right = problem->window_right < 0 || j <= diagonal + problem->window_right;
    return left && right;
}

static bool segments_allow(const struct oracle_problem *problem, const struct oracle_place *place, int64_t i,
                           int64_t j)
{
    if (!problem->q_segments)
        return true;
    const struct oracle_sizes *sizes = &problem->sizes;
    int32_t q_id = problem->q_segments[place->array_batch * sizes->queries + place->query0 + i];
    int32_t kv_id = problem->kv_segments[place->array_batch * sizes->keys + place->key0 + j];
    return q_id >= 0 && q_id == kv_id;
}

static bool masks_allow(const struct oracle_problem *problem, const struct oracle_place *place, int64_t i,
                        int64_t j)
{
    if (problem->block_mask) {
        int64_t block_row = (place->query0 + i) / problem->block_rows;
        int64_t block_column = (place->key0 + j) / problem->block_columns;
        const int64_t index[4] = {place->array_batch, place->h, block_row, block_column};
        uint8_t rule = problem->block_mask[element(problem->block_mask_shape, index)];
        if (rule != 2)
            return rule == 1;
    }
    return !problem->mask || problem->mask[oracle_broadcast_index(problem->mask_shape, place, i, j)];
}

static bool bias_allows(const struct oracle_problem *problem, const struct oracle_place *place, int64_t i,
                        int64_t j)
{
    return !problem->bias ||
           problem->bias[oracle_broadcast_index(problem->bias_shape, place, i, j)] != -INFINITY;
}

bool oracle_attends(const struct oracle_problem *problem, const struct oracle_place *place, int64_t i,
                    int64_t j)
{
    return causal_allows(problem, place, i, j) && window_allows(problem, place, i, j) &&
           segments_allow(problem, place, i, j) && masks_allow(problem, place, i, j) &&
           bias_allows(problem, place, i, j);
}

/* ---- Dropout ---- */

void oracle_philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t words[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t product0 = (uint64_t)0xD2511F53u * c0;
        uint64_t product1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(product1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)product1;
        c2 = (uint32_t)(product0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)product0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
}

bool oracle_dropout_keeps(const struct oracle_problem *problem, const struct oracle_place *place, int64_t i,
                          int64_t j)
{
    uint64_t seed = problem->dropout_seed, offset = problem->dropout_offset;
    uint64_t head = (uint64_t)(place->b * problem->sizes.heads_q + place->h);
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)offset, (uint32_t)((offset >> 32) + head), (uint32_t)i,
                                 (uint32_t)(j >> 2)};
    uint32_t words[4];
    oracle_philox4x32_10(counter, key, words);
    return words[j & 3] >= floor(problem->dropout * 4294967296.0);
}

/* ---- Problems and results ---- */

void oracle_problem_init(struct oracle_problem *problem, const struct oracle_sizes *sizes)
{
    *problem = (struct oracle_problem){
        .sizes = *sizes,
        .tangents = 1,
        .scale = 1 / sqrt((double)sizes->head_dim),
        .window_left = -1,
        .window_right = -1,
    };
}

const char *oracle_output_name(enum oracle_output output)
{
    static const char *const names[ORACLE_OUTPUT_COUNT] = {"o",     "lse",   "dq",     "dk",    "dv",
                                                           "dbias", "dsink", "to",     "tlse",  "tdq",
                                                           "tdk",   "tdv",   "tdbias", "tdsink"};
    return names[output];
}

void *oracle_allocate(int64_t count, size_t element_size)
{
    void *memory = calloc(count > 0 ? (size_t)count : 1, element_size);
    if (!memory)
        abort();
    return memory;
}

static bool has_output(enum oracle_operation operation, const struct oracle_problem *problem,
                       enum oracle_output output)
{
    bool is_tangent = output >= ORACLE_PRIMAL_COUNT;
    enum oracle_output primal = output % ORACLE_PRIMAL_COUNT;
    if (is_tangent && operation != ORACLE_JVP && operation != ORACLE_HVP)
        return false;
    if (primal >= ORACLE_DQ && operation != ORACLE_VJP && operation != ORACLE_HVP)
        return false;
    if (primal == ORACLE_DBIAS)
        return problem->bias != NULL;
    return primal != ORACLE_DSINK || problem->sink != NULL;
}

/* Rows and row length of a primal output. */
static void output_shape(const struct oracle_problem *problem, enum oracle_output primal, int64_t *rows,
                         int64_t *row_length)
{
    const struct oracle_sizes *sizes = &problem->sizes;
    *rows =
        primal == ORACLE_DK || primal == ORACLE_DV ? oracle_key_rows(problem) : oracle_query_rows(problem);
    switch (primal) {
    case ORACLE_DQ:
    case ORACLE_DK:
        *row_length = sizes->head_dim;
        break;
    case ORACLE_O:
    case ORACLE_DV:
        *row_length = sizes->head_dim_v;
        break;
    case ORACLE_DBIAS:
        *row_length = problem->bias_shape[3];
        *rows = problem->bias_shape[0] * problem->bias_shape[1] * problem->bias_shape[2];
        break;
    case ORACLE_DSINK:
        *row_length = 1;
        *rows = sizes->heads_q;
        break;
    default: /* lse */
        *row_length = 1;
    }
}

void oracle_result_allocate(enum oracle_operation operation, const struct oracle_problem *problem,
                            struct oracle_result *result)
{
    *result = (struct oracle_result){0};
    for (enum oracle_output output = 0; output < ORACLE_OUTPUT_COUNT; output++) {
        if (!has_output(operation, problem, output))
            continue;
        struct oracle_array *array = &result->outputs[output];
        int64_t rows;
        output_shape(problem, output % ORACLE_PRIMAL_COUNT, &rows, &array->row_length);
        array->count = rows * array->row_length * (output >= ORACLE_PRIMAL_COUNT ? problem->tangents : 1);
        array->values = oracle_allocate(array->count, sizeof *array->values);
    }
}

void oracle_result_free(struct oracle_result *result)
{
    for (int output = 0; output < ORACLE_OUTPUT_COUNT; output++)
        free(result->outputs[output].values);
    *result = (struct oracle_result){0};
}
