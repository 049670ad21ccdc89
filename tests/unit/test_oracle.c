/*
 * Judges the judge: the oracle's derivatives against central differences of
 * what they derive, its options against small cases worked out by hand, and
 * all of it against arrays made by others. Knows nothing of the library.
 */
#include "support/npy_read.h"
#include "oracle/oracle.h"
#include "oracle/oracle_rules.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof *(array)))

/* ---- Memory that one test uses ---- */

static void *kept[16384];
static int kept_count;

static void *keep(int64_t count, size_t element_size)
{
    assert_true(kept_count < COUNT_OF(kept));
    return kept[kept_count++] = oracle_allocate(count, element_size);
}

static int free_kept(void **state)
{
    (void)state;
    while (kept_count > 0)
        free(kept[--kept_count]);
    return 0;
}

/* ---- Random problems ---- */

static uint64_t random_state;

/* Uniform in (-1, 1), the same on every machine (Knuth's MMIX generator). */
static double random_value(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(random_state >> 11) / 4503599627370496.0 - 1;
}

static double *random_array(int64_t count)
{
    double *array = keep(count, sizeof *array);
    for (int64_t e = 0; e < count; e++)
        array[e] = random_value();
    return array;
}

/* Integers in low .. high */
static int32_t *random_integers(int64_t count, int low, int high)
{
    int32_t *array = keep(count, sizeof *array);
    for (int64_t e = 0; e < count; e++)
        array[e] = low + (int32_t)((random_value() + 1) / 2 * (high - low + 1));
    return array;
}

static uint8_t *random_bytes(int64_t count, int low, int high)
{
    const int32_t *integers = random_integers(count, low, high);
    uint8_t *array = keep(count, sizeof *array);
    for (int64_t e = 0; e < count; e++)
        array[e] = (uint8_t)integers[e];
    return array;
}

enum {
    SOFTCAP = 1 << 0,
    TOP_LEFT = 1 << 1,
    BOTTOM_RIGHT = 1 << 2,
    WINDOW = 1 << 3,
    MASK = 1 << 4,
    FULL_BIAS = 1 << 5,
    KEY_BIAS = 1 << 6,  /* broadcast over heads and queries */
    HEAD_BIAS = 1 << 7, /* broadcast over batches and keys */
    KV_LENGTHS = 1 << 8,
    SEGMENTS = 1 << 9,
    PACKED = 1 << 10,
    BLOCK_MASK = 1 << 11,
    ALIBI = 1 << 12,
    SINK = 1 << 13,
    LOGIT = 1 << 14,
    DROPOUT = 1 << 15
};
#define ANY_BIAS (FULL_BIAS | KEY_BIAS | HEAD_BIAS)

static const unsigned cases[] = {
    0,
    SOFTCAP,
    TOP_LEFT,
    BOTTOM_RIGHT,
    WINDOW,
    MASK,
    FULL_BIAS,
    KEY_BIAS,
    HEAD_BIAS,
    KV_LENGTHS,
    SEGMENTS,
    PACKED,
    BLOCK_MASK,
    ALIBI,
    SINK,
    LOGIT,
    DROPOUT,
    SOFTCAP | LOGIT | FULL_BIAS | SINK | DROPOUT,
    BOTTOM_RIGHT | WINDOW | KV_LENGTHS | ALIBI | SINK | HEAD_BIAS,
    TOP_LEFT | MASK | BLOCK_MASK | SEGMENTS | SOFTCAP | KEY_BIAS,
    PACKED | BOTTOM_RIGHT | FULL_BIAS | SINK | DROPOUT | ALIBI | LOGIT,
    PACKED | MASK | BLOCK_MASK | SEGMENTS | WINDOW | SOFTCAP | HEAD_BIAS | SINK,
};

static void bend(double x, int b, int h, int i, int j, const float *data, double *y, double *dy, double *ddy)
{
    double a = data[h];
    *y = x + a * sin(2 * x) + 0.1 * b - 0.05 * (i - j);
    *dy = 1 + 2 * a * cos(2 * x);
    *ddy = -4 * a * sin(2 * x);
}

static int64_t array_batches(const struct oracle_problem *problem)
{
    return problem->cu_seqlens_q ? 1 : problem->sizes.batch;
}

static void add_masks(struct oracle_problem *p, unsigned options)
{
    int64_t A = array_batches(p), H = p->sizes.heads_q, M = p->sizes.queries, N = p->sizes.keys;
    if (options & MASK) {
        memcpy(p->mask_shape, (int64_t[4]){A, 1, M, N}, sizeof p->mask_shape);
        p->mask = random_bytes(A * M * N, 0, 3);
    }
    if (options & BLOCK_MASK) {
        p->block_rows = 2;
        p->block_columns = 3;
        memcpy(p->block_mask_shape, (int64_t[4]){1, H, (M + 1) / 2, (N + 2) / 3}, sizeof p->block_mask_shape);
        p->block_mask = random_bytes(oracle_elements(p->block_mask_shape), 0, 2);
    }
    if (options & SEGMENTS) {
        p->q_segments = random_integers(A * M, -1, 1);
        p->kv_segments = random_integers(A * N, -1, 1);
    }
    if (options & KV_LENGTHS)
        p->kv_lengths = memcpy(keep(2, sizeof(int32_t)), (int32_t[2]){4, 0}, 2 * sizeof(int32_t));
}

static void add_bias(struct oracle_problem *p, unsigned options)
{
    int64_t A = array_batches(p), H = p->sizes.heads_q, M = p->sizes.queries, N = p->sizes.keys;
    int64_t shape[4] = {A, H, M, N};
    if (options & KEY_BIAS)
        shape[1] = shape[2] = 1;
    if (options & HEAD_BIAS)
        shape[0] = shape[3] = 1;
    memcpy(p->bias_shape, shape, sizeof shape);
    double *bias = random_array(oracle_elements(shape));
    for (int64_t e = 0; e < oracle_elements(shape); e += 6)
        bias[e] = -INFINITY;
    p->bias = bias;
    p->tbias = random_array(p->tangents * oracle_elements(shape));
}

static void add_options(struct oracle_problem *p, unsigned options)
{
    int64_t H = p->sizes.heads_q;
    p->softcap = options & SOFTCAP ? 0.7 : 0;
    p->causal = options & TOP_LEFT       ? ORACLE_CAUSAL_TOP_LEFT
                : options & BOTTOM_RIGHT ? ORACLE_CAUSAL_BOTTOM_RIGHT
                                         : ORACLE_CAUSAL_NONE;
    if (options & WINDOW) {
        p->window_left = 2;
        p->window_right = 1;
    }
    if (options & ALIBI)
        p->alibi = random_array(H);
    if (options & SINK) {
        p->sink = random_array(H);
        p->tsink = random_array(p->tangents * H);
    }
    if (options & LOGIT) {
        static const float data[] = {0.1f, -0.3f, 0.2f, 0.4f};
        p->logit = bend;
        p->logit_data = data;
    }
    if (options & DROPOUT) {
        p->dropout = 0.3;
        p->dropout_seed = 0x123456789ABCDEFu;
        p->dropout_offset = 0xFEDCBA9876543210u;
    }
}

/* Q, K, V, the cotangents, and T tangents of each. */
static void add_arrays(struct oracle_problem *p)
{
    int64_t T = p->tangents, D = p->sizes.head_dim, DV = p->sizes.head_dim_v;
    int64_t q_rows = oracle_query_rows(p), k_rows = oracle_key_rows(p);
    p->q = random_array(q_rows * D);
    p->k = random_array(k_rows * D);
    p->v = random_array(k_rows * DV);
    p->do_ = random_array(q_rows * DV);
    p->dlse = random_array(q_rows);
    p->tq = random_array(T * q_rows * D);
    p->tk = random_array(T * k_rows * D);
    p->tv = random_array(T * k_rows * DV);
    p->tdo = random_array(T * q_rows * DV);
    p->tdlse = random_array(T * q_rows);
}

/* A problem with every array that its options have, and two tangents. Packed
 * ones have an empty sequence, and first and last rows that no sequence holds. */
static struct oracle_problem make_problem(unsigned options)
{
    static const int32_t cu_seqlens_q[] = {1, 4, 4, 8}, cu_seqlens_k[] = {0, 4, 6, 11};
    struct oracle_sizes sizes = {2, 4, 2, 5, 7, 3, 2};
    if (options & PACKED)
        sizes = (struct oracle_sizes){3, 4, 2, 9, 12, 3, 2};
    struct oracle_problem problem;
    oracle_problem_init(&problem, &sizes);
    random_state = options;
    problem.tangents = 2;
    problem.scale = 1.3;
    if (options & PACKED) {
        problem.cu_seqlens_q = cu_seqlens_q;
        problem.cu_seqlens_k = cu_seqlens_k;
    }
    add_arrays(&problem);
    add_masks(&problem, options);
    if (options & ANY_BIAS)
        add_bias(&problem, options);
    add_options(&problem, options);
    return problem;
}

/* ---- Inputs that can be moved along their tangents ---- */

static const struct variable {
    size_t primal, tangent;    /* offsets of pointers in struct oracle_problem */
    enum oracle_output shaped; /* an output of the same shape: its gradient, where it has one */
} variables[] = {
    {offsetof(struct oracle_problem, q), offsetof(struct oracle_problem, tq), ORACLE_DQ},
    {offsetof(struct oracle_problem, k), offsetof(struct oracle_problem, tk), ORACLE_DK},
    {offsetof(struct oracle_problem, v), offsetof(struct oracle_problem, tv), ORACLE_DV},
    {offsetof(struct oracle_problem, bias), offsetof(struct oracle_problem, tbias), ORACLE_DBIAS},
    {offsetof(struct oracle_problem, sink), offsetof(struct oracle_problem, tsink), ORACLE_DSINK},
    {offsetof(struct oracle_problem, do_), offsetof(struct oracle_problem, tdo), ORACLE_O},
    {offsetof(struct oracle_problem, dlse), offsetof(struct oracle_problem, tdlse), ORACLE_LSE},
};
#define DIFFERENTIATED 5 /* the first of them are inputs of the forward operation */

static const double **array_of(struct oracle_problem *problem, size_t offset)
{
    return (const double **)((char *)problem + offset);
}

/* The problem at  inputs + step x tangent t. `shapes` has an output of each variable's shape. */
static struct oracle_problem moved(const struct oracle_problem *problem, const struct oracle_result *shapes,
                                   int64_t t, double step)
{
    struct oracle_problem there = *problem;
    for (int x = 0; x < COUNT_OF(variables); x++) {
        const double **primal = array_of(&there, variables[x].primal);
        const double *tangent = *array_of(&there, variables[x].tangent);
        if (!*primal || !tangent)
            continue;
        int64_t count = shapes->outputs[variables[x].shaped].count;
        double *values = keep(count, sizeof *values);
        for (int64_t e = 0; e < count; e++)
            values[e] = (*primal)[e] + step * tangent[t * count + e];
        *primal = values;
    }
    return there;
}

static double inner_product(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t e = 0; e < count; e++)
        sum += a[e] * b[e];
    return sum;
}

/* ---- Comparing ---- */

static void assert_close(const char *what, const double *ours, const double *expected, int64_t count,
                         double tolerance)
{
    double error = 0, norm = 0;
    for (int64_t e = 0; e < count; e++) {
        if (ours[e] == expected[e] && isinf(expected[e]))
            continue;
        error += (ours[e] - expected[e]) * (ours[e] - expected[e]);
        norm += expected[e] * expected[e];
    }
    if (!(sqrt(error) <= tolerance * sqrt(norm)))
        fail_msg("%s: error %g, norm %g", what, sqrt(error), sqrt(norm));
}

#define STEP 1e-5
/* Central differences err by STEP^2 times the third derivative and by rounding / STEP. */
#define DIFFERENCE_TOLERANCE 1e-8

/* (after - before) / (2 STEP) for one output; rows with nothing to attend to stay at -inf and do not move. */
static double *central_difference(const struct oracle_array *after, const struct oracle_array *before)
{
    double *difference = keep(after->count, sizeof *difference);
    for (int64_t e = 0; e < after->count; e++)
        if (isfinite(after->values[e]) || isfinite(before->values[e]))
            difference[e] = (after->values[e] - before->values[e]) / (2 * STEP);
    return difference;
}

/* The outputs of forward and VJP move along tangent t as the HVP says. */
static void assert_derivative(const struct oracle_problem *problem, const struct oracle_result *hvp,
                              int64_t t)
{
    struct oracle_result after, before;
    struct oracle_problem ahead = moved(problem, hvp, t, STEP);
    struct oracle_problem behind = moved(problem, hvp, t, -STEP);
    oracle_compute(ORACLE_VJP, &ahead, &after);
    oracle_compute(ORACLE_VJP, &behind, &before);
    for (enum oracle_output output = 0; output < ORACLE_PRIMAL_COUNT; output++) {
        const struct oracle_array *array = &after.outputs[output];
        if (!array->values)
            continue;
        enum oracle_output tangent = output + ORACLE_PRIMAL_COUNT;
        assert_close(oracle_output_name(tangent), hvp->outputs[tangent].values + t * array->count,
                     central_difference(array, &before.outputs[output]), array->count, DIFFERENCE_TOLERANCE);
    }
    oracle_result_free(&after);
    oracle_result_free(&before);
}

/* Every output of one is the other's, bit for bit up to the sign of zeros. */
static void assert_same_results(const struct oracle_result *ours, const struct oracle_result *expected)
{
    for (int output = 0; output < ORACLE_OUTPUT_COUNT; output++)
        assert_close(oracle_output_name(output), ours->outputs[output].values,
                     expected->outputs[output].values, expected->outputs[output].count, 0);
}

/* ---- Derivatives ---- */

static void test_hvp_is_the_derivative_of_forward_and_vjp(void **state)
{
    (void)state;
    for (int c = 0; c < COUNT_OF(cases); c++) {
        struct oracle_problem problem = make_problem(cases[c]);
        struct oracle_result hvp;
        oracle_compute(ORACLE_HVP, &problem, &hvp);
        for (int64_t t = 0; t < problem.tangents; t++)
            assert_derivative(&problem, &hvp, t);
        oracle_result_free(&hvp);
        free_kept(NULL);
    }
}

/* <dO, O> + <dL, L>, without the L of rows that have nothing to attend to */
static double objective(const struct oracle_problem *problem)
{
    struct oracle_result forward;
    oracle_compute(ORACLE_FORWARD, problem, &forward);
    const struct oracle_array *o = &forward.outputs[ORACLE_O], *lse = &forward.outputs[ORACLE_LSE];
    double sum = inner_product(problem->do_, o->values, o->count);
    for (int64_t e = 0; e < lse->count; e++)
        if (isfinite(lse->values[e]))
            sum += problem->dlse[e] * lse->values[e];
    oracle_result_free(&forward);
    return sum;
}

/* The gradient of objective() in every element of one array, which is changed on the way and restored. */
static double *numeric_gradient(const struct oracle_problem *problem, double *array, int64_t count)
{
    double *gradient = keep(count, sizeof *gradient);
    for (int64_t e = 0; e < count; e++) {
        double here = array[e];
        array[e] = here + STEP;
        double after = objective(problem);
        array[e] = here - STEP;
        double before = objective(problem);
        array[e] = here;
        gradient[e] = (after - before) / (2 * STEP);
    }
    return gradient;
}

static void test_vjp_is_the_gradient_of_the_objective(void **state)
{
    (void)state;
    for (int c = 0; c < COUNT_OF(cases); c++) {
        struct oracle_problem problem = make_problem(cases[c]);
        struct oracle_result vjp;
        oracle_compute(ORACLE_VJP, &problem, &vjp);
        for (int x = 0; x < DIFFERENTIATED; x++) {
            const struct oracle_array *gradient = &vjp.outputs[variables[x].shaped];
            double *array = (double *)*array_of(&problem, variables[x].primal);
            if (array)
                assert_close(oracle_output_name(variables[x].shaped), gradient->values,
                             numeric_gradient(&problem, array, gradient->count), gradient->count, 1e-7);
        }
        oracle_result_free(&vjp);
        free_kept(NULL);
    }
}

/* Each operation has the outputs that it is said to have, equal to those of the HVP. */
static void test_operations_agree_and_have_their_outputs(void **state)
{
    (void)state;
    static const int outputs_of[] = {
        [ORACLE_FORWARD] = 2, [ORACLE_JVP] = 4, [ORACLE_VJP] = 7, [ORACLE_HVP] = 14};
    struct oracle_problem problem = make_problem(FULL_BIAS | SINK | DROPOUT);
    struct oracle_result hvp, other;
    oracle_compute(ORACLE_HVP, &problem, &hvp);
    for (enum oracle_operation operation = ORACLE_FORWARD; operation <= ORACLE_HVP; operation++) {
        oracle_compute(operation, &problem, &other);
        int present = 0;
        for (int output = 0; output < ORACLE_OUTPUT_COUNT; output++) {
            const struct oracle_array *array = &other.outputs[output];
            if (!array->values)
                continue;
            present++;
            assert_memory_equal(array->values, hvp.outputs[output].values,
                                (size_t)array->count * sizeof(double));
        }
        assert_int_equal(present, outputs_of[operation]);
        oracle_result_free(&other);
    }
    oracle_result_free(&hvp);
}

/* <gradients, tangents> over the differentiated inputs: the gradients (shift 0) or their tangent `of` (shift
 * ORACLE_PRIMAL_COUNT), with the inputs' tangent `along`. */
static double pull_back(struct oracle_problem *problem, const struct oracle_result *result,
                        enum oracle_output shift, int64_t of, int64_t along)
{
    double sum = 0;
    for (int x = 0; x < DIFFERENTIATED; x++) {
        const double *tangent = *array_of(problem, variables[x].tangent);
        int64_t count = result->outputs[variables[x].shaped].count;
        const double *gradient = result->outputs[variables[x].shaped + shift].values;
        if (tangent)
            sum += inner_product(gradient + of * count, tangent + along * count, count);
    }
    return sum;
}

static void test_jvp_and_vjp_are_transposes(void **state)
{
    (void)state;
    for (int c = 0; c < COUNT_OF(cases); c++) {
        struct oracle_problem problem = make_problem(cases[c]);
        struct oracle_result hvp;
        oracle_compute(ORACLE_HVP, &problem, &hvp);
        const struct oracle_array *o = &hvp.outputs[ORACLE_O], *lse = &hvp.outputs[ORACLE_LSE];
        for (int64_t t = 0; t < problem.tangents; t++) {
            double pushed =
                inner_product(problem.do_, hvp.outputs[ORACLE_TO].values + t * o->count, o->count) +
                inner_product(problem.dlse, hvp.outputs[ORACLE_TLSE].values + t * lse->count, lse->count);
            assert_true(fabs(pushed - pull_back(&problem, &hvp, 0, 0, t)) < 1e-12 * (1 + fabs(pushed)));
        }
        oracle_result_free(&hvp);
        free_kept(NULL);
    }
}

/* With constant cotangents the HVP applies a Hessian: <u, H w> = <w, H u>. */
static void test_hvp_is_symmetric(void **state)
{
    (void)state;
    for (int c = 0; c < COUNT_OF(cases); c++) {
        struct oracle_problem problem = make_problem(cases[c]);
        problem.tdo = problem.tdlse = NULL;
        struct oracle_result hvp;
        oracle_compute(ORACLE_HVP, &problem, &hvp);
        double u_h_w = pull_back(&problem, &hvp, ORACLE_PRIMAL_COUNT, 0, 1);
        double w_h_u = pull_back(&problem, &hvp, ORACLE_PRIMAL_COUNT, 1, 0);
        assert_true(fabs(u_h_w) > 1e-3);
        assert_true(fabs(u_h_w - w_h_u) < 1e-12 * (1 + fabs(u_h_w)));
        oracle_result_free(&hvp);
        free_kept(NULL);
    }
}

/* An absent tangent or cotangent is an array of zeros. */
static void test_absent_tangents_are_zero(void **state)
{
    (void)state;
    for (int x = 0; x < COUNT_OF(variables); x++) {
        struct oracle_problem problem = make_problem(FULL_BIAS | SINK);
        struct oracle_result absent, zeros;
        const double **tangent = array_of(&problem, variables[x].tangent);
        *tangent = NULL;
        oracle_compute(ORACLE_HVP, &problem, &absent);
        *tangent = keep(problem.tangents * absent.outputs[variables[x].shaped].count, sizeof(double));
        oracle_compute(ORACLE_HVP, &problem, &zeros);
        assert_same_results(&absent, &zeros);
        oracle_result_free(&absent);
        oracle_result_free(&zeros);
    }
}

/* ---- Options ---- */

/* B = Hq = 1, equal logits, V = identity: O_ij is nonzero where i attends to j. */
static struct oracle_problem make_transparent_problem(int64_t queries, int64_t keys)
{
    struct oracle_problem problem;
    oracle_problem_init(&problem, &(struct oracle_sizes){1, 1, 1, queries, keys, 1, keys});
    double *identity = keep(keys * keys, sizeof *identity);
    for (int64_t j = 0; j < keys; j++)
        identity[j * keys + j] = 1;
    problem.v = identity;
    return problem;
}

/* `picture` has rows of '1' (attends) and '.', each followed by a space. */
static void assert_picture(const struct oracle_problem *problem, const char *picture)
{
    int64_t M = problem->sizes.queries, N = problem->sizes.keys;
    struct oracle_result forward;
    oracle_compute(ORACLE_FORWARD, problem, &forward);
    const double *o = forward.outputs[ORACLE_O].values;
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++)
            assert_int_equal(o[i * N + j] > 0 ? '1' : '.', picture[i * (N + 1) + j]);
    oracle_result_free(&forward);
}

static void test_causal_and_window_pictures(void **state)
{
    (void)state;
    static const struct {
        enum oracle_causal causal;
        int64_t left, right, queries, keys;
        const char *picture;
    } pictures[] = {
        {ORACLE_CAUSAL_NONE, -1, -1, 2, 3, "111 111 "},
        {ORACLE_CAUSAL_TOP_LEFT, -1, -1, 3, 5, "1.... 11... 111.. "},
        {ORACLE_CAUSAL_BOTTOM_RIGHT, -1, -1, 3, 5, "111.. 1111. 11111 "},
        {ORACLE_CAUSAL_TOP_LEFT, -1, -1, 4, 2, "1. 11 11 11 "},
        {ORACLE_CAUSAL_BOTTOM_RIGHT, -1, -1, 4, 2, ".. .. 1. 11 "},
        {ORACLE_CAUSAL_NONE, 1, 0, 3, 5, ".11.. ..11. ...11 "},
        {ORACLE_CAUSAL_NONE, 0, -1, 3, 5, "..111 ...11 ....1 "},
        {ORACLE_CAUSAL_NONE, -1, 1, 3, 5, "1111. 11111 11111 "},
        {ORACLE_CAUSAL_TOP_LEFT, 1, 1, 3, 5, "1.... 11... .11.. "},
        {ORACLE_CAUSAL_BOTTOM_RIGHT, 1, 1, 3, 5, ".11.. ..11. ...11 "},
    };
    for (int c = 0; c < COUNT_OF(pictures); c++) {
        struct oracle_problem problem = make_transparent_problem(pictures[c].queries, pictures[c].keys);
        problem.causal = pictures[c].causal;
        problem.window_left = pictures[c].left;
        problem.window_right = pictures[c].right;
        assert_picture(&problem, pictures[c].picture);
    }
}

static void test_kv_lengths_move_the_bottom_right_corner(void **state)
{
    (void)state;
    struct oracle_problem problem = make_transparent_problem(3, 5);
    problem.causal = ORACLE_CAUSAL_BOTTOM_RIGHT;
    problem.kv_lengths = (const int32_t[]){4};
    assert_picture(&problem, "11... 111.. 1111. ");
    problem.kv_lengths = (const int32_t[]){2};
    assert_picture(&problem, "..... 1.... 11... ");
    problem.kv_lengths = (const int32_t[]){9};
    assert_picture(&problem, "111.. 1111. 11111 ");
}

static void test_segments_picture(void **state)
{
    (void)state;
    struct oracle_problem problem = make_transparent_problem(3, 5);
    problem.q_segments = (const int32_t[]){2, -1, 0};
    problem.kv_segments = (const int32_t[]){0, 0, 2, -1, 3};
    assert_picture(&problem, "..1.. ..... 11... ");
}

static void test_block_mask_picture(void **state)
{
    (void)state;
    struct oracle_problem problem = make_transparent_problem(3, 5);
    memcpy(problem.block_mask_shape, (int64_t[4]){1, 1, 2, 2}, sizeof problem.block_mask_shape);
    problem.block_rows = 2;
    problem.block_columns = 3;
    problem.block_mask = (const uint8_t[]){1, 2, 0, 1};
    assert_picture(&problem, "11111 11111 ...11 ");
    memcpy(problem.mask_shape, (int64_t[4]){1, 1, 1, 5}, sizeof problem.mask_shape);
    problem.mask = (const uint8_t[]){1, 0, 1, 0, 1};
    assert_picture(&problem, "111.1 111.1 ...11 ");
    problem.causal = ORACLE_CAUSAL_TOP_LEFT;
    assert_picture(&problem, "1.... 11... ..... ");
}

/* Masks, bias, segments and blocks of a packed batch count positions from the start of the arrays. */
static void test_packed_masks_are_indexed_by_packed_positions(void **state)
{
    (void)state;
    struct oracle_problem packed = make_transparent_problem(3, 5);
    packed.sizes.batch = 2;
    packed.cu_seqlens_q = (const int32_t[]){0, 1, 3};
    packed.cu_seqlens_k = (const int32_t[]){0, 2, 5};
    assert_picture(&packed, "11... ..111 ..111 ");

    struct oracle_problem problem = packed;
    problem.q_segments = (const int32_t[]){0, 1, 0};
    problem.kv_segments = (const int32_t[]){0, 1, 0, 1, 0};
    assert_picture(&problem, "1.... ...1. ..1.1 ");

    problem = packed;
    memcpy(problem.block_mask_shape, (int64_t[4]){1, 1, 2, 2}, sizeof problem.block_mask_shape);
    problem.block_rows = 2;
    problem.block_columns = 3;
    problem.block_mask = (const uint8_t[]){1, 0, 2, 1};
    assert_picture(&problem, "11... ..1.. ..111 ");
    memcpy(problem.mask_shape, (int64_t[4]){1, 1, 1, 5}, sizeof problem.mask_shape);
    problem.mask = (const uint8_t[]){0, 0, 0, 0, 0};
    assert_picture(&problem, "11... ..1.. ...11 ");

    problem = packed;
    memcpy(problem.bias_shape, (int64_t[4]){1, 1, 3, 1}, sizeof problem.bias_shape);
    problem.bias = (const double[]){0, 0, -INFINITY};
    assert_picture(&problem, "11... ..111 ..... ");
}

/* One query, two keys: softcap, then the logit function, then bias and ALiBi; the sink in the denominator. */
static void test_logit_by_hand(void **state)
{
    (void)state;
    struct oracle_problem problem;
    oracle_problem_init(&problem, &(struct oracle_sizes){1, 1, 1, 1, 2, 1, 1});
    problem.q = (const double[]){1};
    problem.k = (const double[]){0.5, 2};
    problem.v = (const double[]){1, 10};
    problem.scale = 2;
    problem.softcap = 3;
    problem.logit = bend;
    problem.logit_data = (const float[]){0.5f};
    problem.bias = (const double[]){0.1, -0.2};
    memcpy(problem.bias_shape, (int64_t[4]){1, 1, 1, 2}, sizeof problem.bias_shape);
    problem.alibi = (const double[]){0.25};
    problem.sink = (const double[]){0.7};

    double y0 = 3 * tanh(1.0 / 3), y1 = 3 * tanh(4.0 / 3);
    double e0 = exp(y0 + 0.5 * sin(2 * y0) + 0.1 - 0.25); /* i + N - M - j = 1 */
    double e1 = exp(y1 + 0.5 * sin(2 * y1) + 0.05 - 0.2);
    double l = e0 + e1 + exp(0.7);
    struct oracle_result forward;
    oracle_compute(ORACLE_FORWARD, &problem, &forward);
    assert_true(fabs(forward.outputs[ORACLE_O].values[0] - (e0 + 10 * e1) / l) < 1e-14);
    assert_true(fabs(forward.outputs[ORACLE_LSE].values[0] - log(l)) < 1e-14);
    oracle_result_free(&forward);
}

/* Masks everything out for head 0, and key 1 for the others. */
static void mask_by_logit(double x, int b, int h, int i, int j, const float *data, double *y, double *dy,
                          double *ddy)
{
    (void)b, (void)i, (void)data;
    *y = h == 0 || j == 1 ? -INFINITY : x;
    *dy = 1;
    *ddy = 0;
}

static void test_a_logit_of_minus_infinity_masks_out(void **state)
{
    (void)state;
    struct oracle_problem problem = make_problem(0);
    struct oracle_result by_logit, by_mask;
    problem.logit = mask_by_logit;
    oracle_compute(ORACLE_HVP, &problem, &by_logit);
    problem.logit = NULL;
    const int64_t H = 4, N = 7;
    uint8_t *mask = keep(H * N, 1);
    for (int64_t e = 0; e < H * N; e++)
        mask[e] = e / N != 0 && e % N != 1;
    problem.mask = mask;
    memcpy(problem.mask_shape, (int64_t[4]){1, H, 1, N}, sizeof problem.mask_shape);
    oracle_compute(ORACLE_HVP, &problem, &by_mask);
    assert_same_results(&by_logit, &by_mask);
    oracle_result_free(&by_logit);
    oracle_result_free(&by_mask);
}

/* Rows first .. first + count of each head of a [1,H,total,width] array, as [1,H,count,width]. */
static double *cut(const double *array, int64_t heads, int64_t total, int64_t width, int64_t first,
                   int64_t count)
{
    double *part = keep(heads * count * width, sizeof *part);
    for (int64_t h = 0; h < heads; h++)
        memcpy(part + h * count * width, array + (h * total + first) * width,
               (size_t)(count * width) * sizeof *part);
    return part;
}

/* Sequence b of a packed problem as a problem of its own (without bias and masks). */
static struct oracle_problem unpack(const struct oracle_problem *packed, int64_t b)
{
    const struct oracle_sizes *z = &packed->sizes;
    struct oracle_problem one = *packed;
    int64_t q0 = packed->cu_seqlens_q[b], m = packed->cu_seqlens_q[b + 1] - q0;
    int64_t k0 = packed->cu_seqlens_k[b], n = packed->cu_seqlens_k[b + 1] - k0;
    one.sizes.batch = 1;
    one.sizes.queries = m;
    one.sizes.keys = n;
    one.cu_seqlens_q = one.cu_seqlens_k = NULL;
    one.tangents = 1;
    one.q = cut(packed->q, z->heads_q, z->queries, z->head_dim, q0, m);
    one.tq = cut(packed->tq, z->heads_q, z->queries, z->head_dim, q0, m);
    one.k = cut(packed->k, z->heads_kv, z->keys, z->head_dim, k0, n);
    one.tk = cut(packed->tk, z->heads_kv, z->keys, z->head_dim, k0, n);
    one.v = cut(packed->v, z->heads_kv, z->keys, z->head_dim_v, k0, n);
    one.tv = cut(packed->tv, z->heads_kv, z->keys, z->head_dim_v, k0, n);
    one.do_ = cut(packed->do_, z->heads_q, z->queries, z->head_dim_v, q0, m);
    one.tdo = cut(packed->tdo, z->heads_q, z->queries, z->head_dim_v, q0, m);
    one.dlse = cut(packed->dlse, z->heads_q, z->queries, 1, q0, m);
    one.tdlse = cut(packed->tdlse, z->heads_q, z->queries, 1, q0, m);
    /* Offsets that differ by k 2^32 are the same bits, k heads later. */
    one.dropout_offset += (uint64_t)(b * z->heads_q) << 32;
    return one;
}

static void test_a_packed_batch_is_its_sequences(void **state)
{
    (void)state;
    struct oracle_problem packed = make_problem(PACKED | BOTTOM_RIGHT | WINDOW | ALIBI | SINK | DROPOUT);
    const struct oracle_sizes *z = &packed.sizes;
    struct oracle_result whole, part;
    oracle_compute(ORACLE_HVP, &packed, &whole);
    for (int64_t b = 0; b < z->batch; b++) {
        struct oracle_problem one = unpack(&packed, b);
        oracle_compute(ORACLE_HVP, &one, &part);
        int64_t q0 = packed.cu_seqlens_q[b], k0 = packed.cu_seqlens_k[b];
        for (enum oracle_output output = 0; output < ORACLE_OUTPUT_COUNT; output++) {
            enum oracle_output primal = output % ORACLE_PRIMAL_COUNT;
            const struct oracle_array *array = &part.outputs[output];
            bool by_key = primal == ORACLE_DK || primal == ORACLE_DV;
            if (!array->values || primal == ORACLE_DSINK)
                continue;
            const double *expected = cut(whole.outputs[output].values, by_key ? z->heads_kv : z->heads_q,
                                         by_key ? z->keys : z->queries, array->row_length, by_key ? k0 : q0,
                                         by_key ? one.sizes.keys : one.sizes.queries);
            assert_close(oracle_output_name(output), array->values, expected, array->count, 1e-15);
        }
        oracle_result_free(&part);
    }
    oracle_result_free(&whole);
}

/* ---- Dropout ---- */

/* The published known answers of Random123 for philox4x32-10. */
static void test_philox_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], words[4];
    } answers[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int a = 0; a < COUNT_OF(answers); a++) {
        uint32_t words[4];
        oracle_philox4x32_10(answers[a].counter, answers[a].key, words);
        assert_memory_equal(words, answers[a].words, sizeof words);
    }
}

/* A pair is kept when word j & 3 of (offset low, offset high + b Hq + h, i, j >> 2) is large enough. */
static void test_dropout_follows_philox(void **state)
{
    (void)state;
    const double p = 0.4;
    struct oracle_problem problem = make_transparent_problem(3, 9);
    problem.sizes.batch = 2;
    problem.sizes.heads_q = 2;
    problem.sizes.heads_kv = 1;
    problem.v = NULL;
    problem.dropout = p;
    problem.dropout_seed = 0x0123456789ABCDEFu;
    problem.dropout_offset = 0xFFFFFFFE00000007u; /* its high word wraps at the third head */
    int kept_pairs = 0;
    for (uint32_t head = 0; head < 4; head++) {
        struct oracle_place place = oracle_place_of(&problem, head / 2, head % 2);
        for (uint32_t i = 0; i < 3; i++) {
            for (uint32_t j = 0; j < 9; j++) {
                uint32_t words[4];
                const uint32_t counter[] = {7, 0xFFFFFFFEu + head, i, j / 4},
                               key[] = {0x89ABCDEFu, 0x01234567u};
                oracle_philox4x32_10(counter, key, words);
                bool keeps = words[j % 4] >= (uint32_t)(p * 4294967296.0);
                assert_int_equal(oracle_dropout_keeps(&problem, &place, i, j), keeps);
                kept_pairs += keeps;
            }
        }
    }
    assert_in_range(kept_pairs, 50, 80); /* of 108, 65 expected */
}

/* O = (P o Z) V, L untouched */
static void test_dropout_scales_what_it_keeps(void **state)
{
    (void)state;
    struct oracle_problem problem = make_transparent_problem(4, 8);
    problem.dropout = 0.5;
    struct oracle_place place = oracle_place_of(&problem, 0, 0);
    struct oracle_result forward;
    oracle_compute(ORACLE_FORWARD, &problem, &forward);
    for (int64_t i = 0; i < 4; i++) {
        assert_true(fabs(forward.outputs[ORACLE_LSE].values[i] - log(8)) < 1e-15);
        for (int64_t j = 0; j < 8; j++) {
            double expected = oracle_dropout_keeps(&problem, &place, i, j) ? 2.0 / 8 : 0;
            assert_true(fabs(forward.outputs[ORACLE_O].values[i * 8 + j] - expected) < 1e-15);
        }
    }
    oracle_result_free(&forward);
}

/* ---- Edge rows, and what must not leak ---- */

static void assert_all(const struct oracle_array *array, double value)
{
    assert_non_null(array->values);
    for (int64_t e = 0; e < array->count; e++)
        assert_true(array->values[e] == value);
}

static void test_rows_with_nothing_to_attend_to_are_zero(void **state)
{
    (void)state;
    struct oracle_problem problem = make_problem(FULL_BIAS);
    problem.kv_lengths = (const int32_t[]){0, 0};
    struct oracle_result hvp;
    oracle_compute(ORACLE_HVP, &problem, &hvp);
    for (int output = 0; output < ORACLE_OUTPUT_COUNT; output++)
        if (hvp.outputs[output].values)
            assert_all(&hvp.outputs[output], output == ORACLE_LSE ? -INFINITY : 0);
    oracle_result_free(&hvp);
}

static void test_a_row_with_only_a_sink(void **state)
{
    (void)state;
    struct oracle_problem problem = make_transparent_problem(1, 2);
    problem.kv_lengths = (const int32_t[]){0};
    problem.sink = (const double[]){-3.5};
    problem.tsink = (const double[]){0.25};
    problem.dlse = (const double[]){2};
    problem.tdlse = (const double[]){5};
    struct oracle_result hvp;
    oracle_compute(ORACLE_HVP, &problem, &hvp);
    assert_all(&hvp.outputs[ORACLE_O], 0);
    assert_all(&hvp.outputs[ORACLE_LSE], -3.5);
    assert_all(&hvp.outputs[ORACLE_TO], 0);
    assert_all(&hvp.outputs[ORACLE_TLSE], 0.25);
    assert_all(&hvp.outputs[ORACLE_DSINK], 2);
    assert_all(&hvp.outputs[ORACLE_TDSINK], 5);
    oracle_result_free(&hvp);
    problem.sink = (const double[]){-INFINITY};
    oracle_compute(ORACLE_HVP, &problem, &hvp);
    assert_all(&hvp.outputs[ORACLE_LSE], -INFINITY);
    assert_all(&hvp.outputs[ORACLE_DSINK], 0);
    oracle_result_free(&hvp);
}

/* First and last row of make_problem(PACKED), in every head. */
static void test_rows_of_no_sequence_ignore_the_sink(void **state)
{
    (void)state;
    struct oracle_problem problem = make_problem(PACKED | SINK);
    struct oracle_result vjp;
    oracle_compute(ORACLE_VJP, &problem, &vjp);
    int64_t M = problem.sizes.queries, D = problem.sizes.head_dim, DV = problem.sizes.head_dim_v;
    for (int64_t row = 0; row < problem.sizes.heads_q * M; row++) {
        if (row % M != 0 && row % M != M - 1)
            continue;
        assert_true(vjp.outputs[ORACLE_LSE].values[row] == -INFINITY);
        assert_true(vjp.outputs[ORACLE_O].values[row * DV] == 0);
        assert_true(vjp.outputs[ORACLE_DQ].values[row * D] == 0);
    }
    oracle_result_free(&vjp);
}

/* NaN in the last `rows` of every `period` rows. */
static const double *poisoned(const double *array, int64_t count, int64_t width, int64_t period, int64_t rows)
{
    double *copy = memcpy(keep(count, sizeof *copy), array, (size_t)count * sizeof *copy);
    for (int64_t e = 0; e < count; e++)
        if (e / width % period >= period - rows)
            copy[e] = NAN;
    return copy;
}

static void test_masked_nan_does_not_leak(void **state)
{
    (void)state;
    struct oracle_problem problem = make_problem(FULL_BIAS | SINK | SOFTCAP);
    int64_t N = problem.sizes.keys, T = problem.tangents, k_rows = oracle_key_rows(&problem);
    int64_t biases = oracle_elements(problem.bias_shape);
    problem.kv_lengths = (const int32_t[]){5, 5};
    struct oracle_result clean, hvp;
    oracle_compute(ORACLE_HVP, &problem, &clean);
    problem.k = poisoned(problem.k, k_rows * 3, 3, N, 2);
    problem.tk = poisoned(problem.tk, T * k_rows * 3, 3, N, 2);
    problem.v = poisoned(problem.v, k_rows * 2, 2, N, 2);
    problem.tv = poisoned(problem.tv, T * k_rows * 2, 2, N, 2);
    problem.bias = poisoned(problem.bias, biases, 1, N, 2);
    problem.tbias = poisoned(problem.tbias, T * biases, 1, N, 2);
    oracle_compute(ORACLE_HVP, &problem, &hvp);
    assert_same_results(&hvp, &clean);
    oracle_result_free(&clean);
    oracle_result_free(&hvp);
}

/* A live NaN shows in the rows that it touches and in no other. */
static void test_live_nan_stays_in_its_rows(void **state)
{
    (void)state;
    struct oracle_problem problem = make_problem(TOP_LEFT);
    double *k = memcpy(keep(84, sizeof *k), problem.k, 84 * sizeof *k);
    k[2 * 3] = NAN; /* batch 0, key/value head 0, key 2: queries 2 .. 4 of heads 0 and 1 */
    problem.k = k;
    struct oracle_result forward;
    oracle_compute(ORACLE_FORWARD, &problem, &forward);
    for (int64_t row = 0; row < forward.outputs[ORACLE_LSE].count; row++)
        assert_int_equal(isnan(forward.outputs[ORACLE_LSE].values[row]) != 0, row < 10 && row % 5 >= 2);
    oracle_result_free(&forward);
}

/* A finite bias however negative is data: a row of one constant is the softmax of the logits under it. */
static void test_large_constants_in_the_bias_cancel(void **state)
{
    (void)state;
    struct oracle_problem problem = make_problem(0);
    struct oracle_result plain, shifted;
    oracle_compute(ORACLE_VJP, &problem, &plain);
    problem.bias = (const double[]){-1e4};
    memcpy(problem.bias_shape, (int64_t[4]){1, 1, 1, 1}, sizeof problem.bias_shape);
    oracle_compute(ORACLE_VJP, &problem, &shifted);
    for (enum oracle_output output = ORACLE_DQ; output <= ORACLE_DV; output++)
        assert_close(oracle_output_name(output), shifted.outputs[output].values, plain.outputs[output].values,
                     plain.outputs[output].count, 1e-11);
    oracle_result_free(&plain);
    oracle_result_free(&shifted);
}

/* ---- Precision and sizes of terms ---- */

static void test_f32_differs_by_rounding_only(void **state)
{
    (void)state;
    for (int c = 0; c < COUNT_OF(cases); c++) {
        struct oracle_problem problem = make_problem(cases[c]);
        struct oracle_result f64, f32;
        oracle_compute(ORACLE_HVP, &problem, &f64);
        oracle_compute_f32(ORACLE_HVP, &problem, &f32);
        for (int output = 0; output < ORACLE_OUTPUT_COUNT; output++)
            assert_close(oracle_output_name(output), f32.outputs[output].values, f64.outputs[output].values,
                         f64.outputs[output].count, 3e-6);
        assert_memory_not_equal(f32.outputs[ORACLE_O].values, f64.outputs[ORACLE_O].values,
                                (size_t)f64.outputs[ORACLE_O].count * sizeof(double));
        oracle_result_free(&f64);
        oracle_result_free(&f32);
        free_kept(NULL);
    }
}

/* With one key P is 1 whatever the logit, so dQ and dK cancel to nothing; their terms do not. */
static void test_size_outlives_cancellation(void **state)
{
    (void)state;
    struct oracle_problem problem = make_problem(0);
    problem.kv_lengths = (const int32_t[]){1, 1};
    problem.dlse = NULL;
    struct oracle_result vjp;
    oracle_compute(ORACLE_VJP, &problem, &vjp);
    const struct oracle_array *dq = &vjp.outputs[ORACLE_DQ], *dv = &vjp.outputs[ORACLE_DV];
    assert_true(sqrt(inner_product(dq->values, dq->values, dq->count)) < 1e-14);
    assert_true(dq->size > 0.1);
    /* Sizes bound the norms, and stay near them where little cancels. */
    double dv_norm = sqrt(inner_product(dv->values, dv->values, dv->count));
    assert_true(dv->size >= dv_norm && dv->size < 10 * dv_norm);
    oracle_result_free(&vjp);
}

/* ---- Arrays made by others ---- */

/* Where tests/data is: an absolute path from the build, or the environment's. */
static const char *test_data(void)
{
#ifdef CLATTN_TEST_DATA
    return CLATTN_TEST_DATA;
#else
    const char *path = getenv("CLATTN_TEST_DATA");
    return path ? path : "tests/data";
#endif
}

/* The values of minilm/NAME.npy, kept until the test ends. */
static const double *load(const char *name, int64_t count)
{
    char path[4096];
    struct npy_array array;
    snprintf(path, sizeof path, "%s/minilm/%s.npy", test_data(), name);
    if (!npy_read(path, &array))
        fail_msg("cannot read %s", path);
    assert_int_equal(array.count, count);
    double *values = memcpy(keep(count, sizeof *values), array.values, (size_t)count * sizeof *values);
    npy_free(&array);
    return values;
}

static void test_minilm_is_reproduced(void **state)
{
    (void)state;
    const int64_t B = 3, H = 12, N = 96, D = 32, elements = B * H * N * D;
    struct oracle_problem problem;
    oracle_problem_init(&problem, &(struct oracle_sizes){B, H, H, N, N, D, D});
    problem.q = load("q", elements);
    problem.k = load("k", elements);
    problem.v = load("v", elements);
    problem.tq = load("tq", elements);
    problem.tk = load("tk", elements);
    problem.tv = load("tv", elements);
    problem.do_ = load("do", elements);
    problem.tdo = load("tdo", elements);
    int32_t kv_lengths[3];
    for (int b = 0; b < 3; b++)
        kv_lengths[b] = (int32_t)load("kv_lengths", B)[b];
    problem.kv_lengths = kv_lengths;
    struct oracle_result hvp;
    oracle_compute(ORACLE_HVP, &problem, &hvp);
    for (int output = 0; output < ORACLE_OUTPUT_COUNT; output++) {
        const struct oracle_array *array = &hvp.outputs[output];
        if (array->values)
            assert_close(oracle_output_name(output), array->values,
                         load(oracle_output_name(output), array->count), array->count, 1e-12);
    }
    oracle_result_free(&hvp);
}

#define TEST(function) cmocka_unit_test_teardown(function, free_kept)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_hvp_is_the_derivative_of_forward_and_vjp),
        TEST(test_vjp_is_the_gradient_of_the_objective),
        TEST(test_operations_agree_and_have_their_outputs),
        TEST(test_jvp_and_vjp_are_transposes),
        TEST(test_hvp_is_symmetric),
        TEST(test_absent_tangents_are_zero),
        TEST(test_causal_and_window_pictures),
        TEST(test_kv_lengths_move_the_bottom_right_corner),
        TEST(test_segments_picture),
        TEST(test_block_mask_picture),
        TEST(test_packed_masks_are_indexed_by_packed_positions),
        TEST(test_logit_by_hand),
        TEST(test_a_logit_of_minus_infinity_masks_out),
        TEST(test_a_packed_batch_is_its_sequences),
        TEST(test_philox_known_answers),
        TEST(test_dropout_follows_philox),
        TEST(test_dropout_scales_what_it_keeps),
        TEST(test_rows_with_nothing_to_attend_to_are_zero),
        TEST(test_a_row_with_only_a_sink),
        TEST(test_rows_of_no_sequence_ignore_the_sink),
        TEST(test_masked_nan_does_not_leak),
        TEST(test_live_nan_stays_in_its_rows),
        TEST(test_large_constants_in_the_bias_cancel),
        TEST(test_f32_differs_by_rounding_only),
        TEST(test_size_outlives_cancellation),
        TEST(test_minilm_is_reproduced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
