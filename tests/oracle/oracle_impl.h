/*
 * The oracle's arithmetic, compiled once for each precision: the includer
 * defines the type `real` and the name ORACLE_COMPUTE. Knows formulas only;
 * which pairs attend and where arrays lie is asked of oracle_rules.h.
 *
 * Names: s scale, g = dS/dX, g2 = d2S/dX2, mu = L', delta = <dO, O> by row,
 * p_sink the sink's probability. Suffix _t marks the tangent of a quantity.
 */
#include "oracle_rules.h"

#include <stdlib.h>
#include <tgmath.h> /* exp, log, tanh, fabs in the precision of `real` */

/* ---- Numbers that know how large their terms were ---- */

/* A value, and the same sum of products with every term taken absolute. */
typedef struct number {
    real value, size;
} number;

static number exact(real x) { return (number){x, fabs(x)}; }

static number plus(number a, number b) { return (number){a.value + b.value, a.size + b.size}; }

static number minus(number a, number b) { return (number){a.value - b.value, a.size + b.size}; }

static number times(number a, number b) { return (number){a.value * b.value, a.size * b.size}; }

static void add(number *sum, number term) { *sum = plus(*sum, term); }

/* ---- Vectors; an absent (NULL) array is 0 ---- */

static number input(const double *array, int64_t index) { return exact(array ? (real)array[index] : 0); }

static const double *row(const double *array, int64_t index, int64_t width)
{
    return array ? array + index * width : NULL;
}

static number dot(const double *a, const double *b, int64_t width)
{
    number sum = {0, 0};
    for (int64_t d = 0; a && b && d < width; d++)
        add(&sum, times(exact((real)a[d]), exact((real)b[d])));
    return sum;
}

/* The same where b is a result. */
static number dot_result(const double *a, const number *b, int64_t width)
{
    number sum = {0, 0};
    for (int64_t d = 0; a && d < width; d++)
        add(&sum, times(exact((real)a[d]), b[d]));
    return sum;
}

/* out += factor x vector */
static void add_scaled(number *out, number factor, const double *vector, int64_t width)
{
    for (int64_t d = 0; vector && d < width; d++)
        add(&out[d], times(factor, exact((real)vector[d])));
}

/* ---- State of one head ---- */

/* Inputs and outputs at one head's first row: the primal ones, or the same
 * fields for one tangent. Bias arrays start at their first element. */
struct inputs {
    const double *q, *k, *v, *bias, *sink, *do_, *dlse;
};
struct outputs {
    number *o, *lse, *dq, *dk, *dv, *dbias, *dsink;
};

/* Element (i, j) of the M x N matrices. */
struct pair {
    bool attends; /* nothing below means anything where it is false */
    number s, p, z, g, g2;
    number dp, ds;
    /* of the present tangent */
    number x_t, s_t, p_t;
};

struct row_state {
    number p_sink; /* 0 without a sink */
    number delta;
};

struct head {
    const struct oracle_problem *problem;
    struct oracle_place place;
    struct inputs in, in_t;
    struct outputs out, out_t;
    struct pair *pairs;     /* [m,n] */
    struct row_state *rows; /* [m] */
};

static struct pair *pair_at(const struct head *head, int64_t i, int64_t j)
{
    return &head->pairs[i * head->place.n + j];
}

static bool has_sink(const struct head *head) { return head->in.sink && *head->in.sink != -INFINITY; }

static number scale_of(const struct head *head) { return exact((real)head->problem->scale); }

/* ---- Forward ---- */

/* S, g and g2 as functions of X, without the bias. False: the logit function
 * masks the pair out by a logit of -inf. */
static bool apply_logit_functions(const struct head *head, int64_t i, int64_t j, number x, struct pair *pair)
{
    const struct oracle_problem *problem = head->problem;
    real y = x.value, dy = 1, ddy = 0;
    if (problem->softcap > 0) {
        real c = (real)problem->softcap;
        real th = tanh(x.value / c);
        y = c * th;
        dy = 1 - th * th;
        ddy = -2 * th * dy / c;
    }
    if (problem->logit) {
        double f, df, ddf;
        problem->logit((double)y, (int)head->place.b, (int)head->place.h, (int)i, (int)j, problem->logit_data,
                       &f, &df, &ddf);
        y = (real)f;
        ddy = (real)ddf * dy * dy + (real)df * ddy;
        dy = (real)df * dy;
    }
    /* X's terms count by how strongly S depends on them. */
    pair->s = (number){y, fabs(dy) * x.size + fabs(y)};
    pair->g = exact(dy);
    pair->g2 = exact(ddy);
    return !(problem->logit && y == -INFINITY);
}

static void add_biases(const struct head *head, int64_t i, int64_t j, number *s)
{
    const struct oracle_problem *problem = head->problem;
    const struct oracle_place *place = &head->place;
    if (problem->bias)
        add(s, input(head->in.bias, oracle_broadcast_index(problem->bias_shape, place, i, j)));
    if (problem->alibi) {
        int64_t distance = llabs((long long)(oracle_diagonal(place, i) - j));
        *s = minus(*s, times(exact((real)problem->alibi[place->h]), exact((real)distance)));
    }
}

/* S = f(c tanh(s Q K^T / c)) + B, and Z */
static void compute_logits(struct head *head, int64_t i, int64_t j)
{
    const struct oracle_problem *problem = head->problem;
    int64_t D = problem->sizes.head_dim;
    struct pair *pair = pair_at(head, i, j);
    pair->attends = oracle_attends(problem, &head->place, i, j);
    if (!pair->attends)
        return;
    number x = times(scale_of(head), dot(row(head->in.q, i, D), row(head->in.k, j, D), D));
    pair->attends = apply_logit_functions(head, i, j, x, pair);
    add_biases(head, i, j, &pair->s);
    bool keeps = oracle_dropout_keeps(problem, &head->place, i, j);
    pair->z = exact(keeps ? 1 / (1 - (real)problem->dropout) : 0);
}

/* m_i: the largest logit of a row, sink included; -inf without any. */
static real row_maximum(const struct head *head, int64_t i, real sink)
{
    real m = sink;
    for (int64_t j = 0; j < head->place.n; j++) {
        const struct pair *pair = pair_at(head, i, j);
        if (pair->attends && pair->s.value > m)
            m = pair->s.value;
    }
    return m;
}

/* P = exp(S - m) / l and L = m + log l, which is -inf for a row with nothing to attend to. */
static void compute_softmax(struct head *head, int64_t i)
{
    int64_t n = head->place.n;
    real sink = has_sink(head) ? (real)*head->in.sink : -INFINITY;
    real m = row_maximum(head, i, sink);
    real l = has_sink(head) ? exp(sink - m) : 0;
    for (int64_t j = 0; j < n; j++)
        if (pair_at(head, i, j)->attends)
            l += exp(pair_at(head, i, j)->s.value - m);

    number *lse = &head->out.lse[i];
    *lse = (number){m + log(l), l > 0 ? fabs(log(l)) : 0};
    for (int64_t j = 0; j < n; j++) {
        struct pair *pair = pair_at(head, i, j);
        if (!pair->attends)
            continue;
        pair->p = exact(exp(pair->s.value - m) / l);
        lse->size += pair->p.size * pair->s.size;
    }
    if (has_sink(head)) {
        head->rows[i].p_sink = exact(exp(sink - m) / l);
        lse->size += head->rows[i].p_sink.size * fabs(sink);
    }
}

/* O = (P o Z) V */
static void compute_output(struct head *head, int64_t i)
{
    int64_t DV = head->problem->sizes.head_dim_v;
    for (int64_t j = 0; j < head->place.n; j++) {
        const struct pair *pair = pair_at(head, i, j);
        if (pair->attends)
            add_scaled(&head->out.o[i * DV], times(pair->p, pair->z), row(head->in.v, j, DV), DV);
    }
}

static void forward(struct head *head)
{
    for (int64_t i = 0; i < head->place.m; i++) {
        for (int64_t j = 0; j < head->place.n; j++)
            compute_logits(head, i, j);
        compute_softmax(head, i);
        compute_output(head, i);
    }
}

/* ---- JVP ---- */

/* X' = s (Q' K^T + Q K'^T), S' = g o X' + B' */
static void compute_logits_t(struct head *head, int64_t i, int64_t j)
{
    const struct inputs *in = &head->in, *in_t = &head->in_t;
    int64_t D = head->problem->sizes.head_dim;
    struct pair *pair = pair_at(head, i, j);
    number of_q = dot(row(in_t->q, i, D), row(in->k, j, D), D);
    number of_k = dot(row(in->q, i, D), row(in_t->k, j, D), D);
    pair->x_t = times(scale_of(head), plus(of_q, of_k));
    pair->s_t = times(pair->g, pair->x_t);
    if (in_t->bias)
        add(&pair->s_t,
            input(in_t->bias, oracle_broadcast_index(head->problem->bias_shape, &head->place, i, j)));
}

/* mu = sum_j P S' + P_s sink', and P' = P o (S' - mu) */
static void compute_softmax_t(struct head *head, int64_t i)
{
    number mu = {0, 0};
    if (has_sink(head))
        mu = times(head->rows[i].p_sink, input(head->in_t.sink, 0));
    for (int64_t j = 0; j < head->place.n; j++) {
        const struct pair *pair = pair_at(head, i, j);
        if (pair->attends)
            add(&mu, times(pair->p, pair->s_t));
    }
    for (int64_t j = 0; j < head->place.n; j++) {
        struct pair *pair = pair_at(head, i, j);
        if (pair->attends)
            pair->p_t = times(pair->p, minus(pair->s_t, mu));
    }
    head->out_t.lse[i] = mu;
}

/* O' = (P o S' o Z) V + (P o Z) V' - mu o O */
static void compute_output_t(struct head *head, int64_t i)
{
    int64_t DV = head->problem->sizes.head_dim_v;
    number *o_t = &head->out_t.o[i * DV];
    for (int64_t j = 0; j < head->place.n; j++) {
        const struct pair *pair = pair_at(head, i, j);
        if (!pair->attends)
            continue;
        number pz = times(pair->p, pair->z);
        add_scaled(o_t, times(pz, pair->s_t), row(head->in.v, j, DV), DV);
        add_scaled(o_t, pz, row(head->in_t.v, j, DV), DV);
    }
    for (int64_t d = 0; d < DV; d++)
        o_t[d] = minus(o_t[d], times(head->out_t.lse[i], head->out.o[i * DV + d]));
}

static void jvp(struct head *head)
{
    for (int64_t i = 0; i < head->place.m; i++) {
        for (int64_t j = 0; j < head->place.n; j++)
            if (pair_at(head, i, j)->attends)
                compute_logits_t(head, i, j);
        compute_softmax_t(head, i);
        compute_output_t(head, i);
    }
}

/* ---- VJP ---- */

/* dS = P o (dP - delta + dL), dP = Z o (dO V^T), and what one pair adds to the gradients:
 * dV = (P o Z)^T dO, dQ = s dX K, dK = s dX^T Q with dX = g o dS, dB = dS */
static void add_gradients(struct head *head, int64_t i, int64_t j)
{
    const struct inputs *in = &head->in;
    const struct outputs *out = &head->out;
    int64_t D = head->problem->sizes.head_dim, DV = head->problem->sizes.head_dim_v;
    struct pair *pair = pair_at(head, i, j);
    pair->dp = times(pair->z, dot(row(in->do_, i, DV), row(in->v, j, DV), DV));
    pair->ds = times(pair->p, plus(minus(pair->dp, head->rows[i].delta), input(in->dlse, i)));
    number s_dx = times(scale_of(head), times(pair->g, pair->ds));

    add_scaled(&out->dv[j * DV], times(pair->p, pair->z), row(in->do_, i, DV), DV);
    add_scaled(&out->dq[i * D], s_dx, row(in->k, j, D), D);
    add_scaled(&out->dk[j * D], s_dx, row(in->q, i, D), D);
    if (out->dbias)
        add(&out->dbias[oracle_broadcast_index(head->problem->bias_shape, &head->place, i, j)], pair->ds);
}

static void vjp(struct head *head)
{
    int64_t DV = head->problem->sizes.head_dim_v;
    for (int64_t i = 0; i < head->place.m; i++) {
        struct row_state *state = &head->rows[i];
        state->delta = dot_result(row(head->in.do_, i, DV), &head->out.o[i * DV], DV);
        for (int64_t j = 0; j < head->place.n; j++)
            if (pair_at(head, i, j)->attends)
                add_gradients(head, i, j);
        /* dsink = sum of P_s (dL - delta) */
        if (has_sink(head))
            add(head->out.dsink, times(state->p_sink, minus(input(head->in.dlse, i), state->delta)));
    }
}

/* ---- HVP ---- */

/* dS' = P' o (dP - delta + dL) + P o (dP' - delta' + dL') with dP' = Z o (dO' V^T + dO V'^T) */
static number ds_tangent(const struct head *head, int64_t i, int64_t j, number delta_t)
{
    const struct inputs *in = &head->in, *in_t = &head->in_t;
    int64_t DV = head->problem->sizes.head_dim_v;
    const struct pair *pair = pair_at(head, i, j);
    number of_do = dot(row(in_t->do_, i, DV), row(in->v, j, DV), DV);
    number of_v = dot(row(in->do_, i, DV), row(in_t->v, j, DV), DV);
    number dp_t = times(pair->z, plus(of_do, of_v));
    number through_p = times(pair->p_t, plus(minus(pair->dp, head->rows[i].delta), input(in->dlse, i)));
    number through_cotangent = times(pair->p, plus(minus(dp_t, delta_t), input(in_t->dlse, i)));
    return plus(through_p, through_cotangent);
}

/* What one pair adds to the tangents of the gradients:
 * dX' = g' o dS + g o dS' with g' = g2 X', dV' = (P' o Z)^T dO + (P o Z)^T dO',
 * dQ' = s (dX' K + dX K'), dK' = s (dX'^T Q + dX^T Q'), dB' = dS' */
static void add_gradients_t(struct head *head, int64_t i, int64_t j, number delta_t)
{
    const struct inputs *in = &head->in, *in_t = &head->in_t;
    const struct outputs *out_t = &head->out_t;
    int64_t D = head->problem->sizes.head_dim, DV = head->problem->sizes.head_dim_v;
    const struct pair *pair = pair_at(head, i, j);
    number ds_t = ds_tangent(head, i, j, delta_t);
    number g_t = times(pair->g2, pair->x_t);
    number s_dx = times(scale_of(head), times(pair->g, pair->ds));
    number s_dx_t = times(scale_of(head), plus(times(g_t, pair->ds), times(pair->g, ds_t)));

    add_scaled(&out_t->dv[j * DV], times(pair->p_t, pair->z), row(in->do_, i, DV), DV);
    add_scaled(&out_t->dv[j * DV], times(pair->p, pair->z), row(in_t->do_, i, DV), DV);
    add_scaled(&out_t->dq[i * D], s_dx_t, row(in->k, j, D), D);
    add_scaled(&out_t->dq[i * D], s_dx, row(in_t->k, j, D), D);
    add_scaled(&out_t->dk[j * D], s_dx_t, row(in->q, i, D), D);
    add_scaled(&out_t->dk[j * D], s_dx, row(in_t->q, i, D), D);
    if (out_t->dbias)
        add(&out_t->dbias[oracle_broadcast_index(head->problem->bias_shape, &head->place, i, j)], ds_t);
}

/* dsink' gains P_s' (dL - delta) + P_s (dL' - delta') with P_s' = P_s (sink' - mu) */
static void add_sink_gradient_t(struct head *head, int64_t i, number delta_t)
{
    const struct row_state *state = &head->rows[i];
    number p_sink_t = times(state->p_sink, minus(input(head->in_t.sink, 0), head->out_t.lse[i]));
    add(head->out_t.dsink, times(p_sink_t, minus(input(head->in.dlse, i), state->delta)));
    add(head->out_t.dsink, times(state->p_sink, minus(input(head->in_t.dlse, i), delta_t)));
}

/* Needs vjp() of the head and jvp() of the present tangent. */
static void hvp(struct head *head)
{
    int64_t DV = head->problem->sizes.head_dim_v;
    for (int64_t i = 0; i < head->place.m; i++) {
        /* delta' = sum_d dO' O + dO O' */
        number delta_t = plus(dot_result(row(head->in_t.do_, i, DV), &head->out.o[i * DV], DV),
                              dot_result(row(head->in.do_, i, DV), &head->out_t.o[i * DV], DV));
        for (int64_t j = 0; j < head->place.n; j++)
            if (pair_at(head, i, j)->attends)
                add_gradients_t(head, i, j, delta_t);
        if (has_sink(head))
            add_sink_gradient_t(head, i, delta_t);
    }
}

/* ---- All heads ---- */

static const double *advance(const double *array, int64_t elements)
{
    return array ? array + elements : NULL;
}

static struct inputs primal_inputs(const struct oracle_problem *problem, const struct oracle_place *place)
{
    int64_t D = problem->sizes.head_dim, DV = problem->sizes.head_dim_v;
    return (struct inputs){
        .q = advance(problem->q, place->q_row * D),
        .k = advance(problem->k, place->k_row * D),
        .v = advance(problem->v, place->k_row * DV),
        .bias = problem->bias,
        .sink = advance(problem->sink, place->h),
        .do_ = advance(problem->do_, place->q_row * DV),
        .dlse = advance(problem->dlse, place->q_row),
    };
}

static struct inputs tangent_inputs(const struct oracle_problem *problem, const struct oracle_place *place,
                                    int64_t t)
{
    int64_t D = problem->sizes.head_dim, DV = problem->sizes.head_dim_v;
    int64_t q_row = t * oracle_query_rows(problem) + place->q_row;
    int64_t k_row = t * oracle_key_rows(problem) + place->k_row;
    return (struct inputs){
        .q = advance(problem->tq, q_row * D),
        .k = advance(problem->tk, k_row * D),
        .v = advance(problem->tv, k_row * DV),
        .bias = advance(problem->tbias, t * oracle_elements(problem->bias_shape)),
        .sink = advance(problem->tsink, t * problem->sizes.heads_q + place->h),
        .do_ = advance(problem->tdo, q_row * DV),
        .dlse = advance(problem->tdlse, q_row),
    };
}

/* The outputs from `first` on (ORACLE_O, or ORACLE_TO for tangent t) at a head's first row. */
static struct outputs outputs_at(const struct oracle_problem *problem, const struct oracle_place *place,
                                 number *const sums[ORACLE_OUTPUT_COUNT], enum oracle_output first, int64_t t)
{
    int64_t D = problem->sizes.head_dim, DV = problem->sizes.head_dim_v;
    int64_t q_row = t * oracle_query_rows(problem) + place->q_row;
    int64_t k_row = t * oracle_key_rows(problem) + place->k_row;
    const int64_t offsets[ORACLE_PRIMAL_COUNT] = {
        [ORACLE_O] = q_row * DV,
        [ORACLE_LSE] = q_row,
        [ORACLE_DQ] = q_row * D,
        [ORACLE_DK] = k_row * D,
        [ORACLE_DV] = k_row * DV,
        [ORACLE_DBIAS] = t * oracle_elements(problem->bias_shape),
        [ORACLE_DSINK] = t * problem->sizes.heads_q + place->h,
    };
    number *at[ORACLE_PRIMAL_COUNT];
    for (int output = 0; output < ORACLE_PRIMAL_COUNT; output++) {
        number *sum = sums[(int)first + output];
        at[output] = sum ? sum + offsets[output] : NULL;
    }
    return (struct outputs){at[ORACLE_O],  at[ORACLE_LSE],   at[ORACLE_DQ],   at[ORACLE_DK],
                            at[ORACLE_DV], at[ORACLE_DBIAS], at[ORACLE_DSINK]};
}

static void compute_head(enum oracle_operation operation, struct head *head,
                         number *const sums[ORACLE_OUTPUT_COUNT])
{
    const struct oracle_problem *problem = head->problem;
    const struct oracle_place *place = &head->place;
    head->pairs = oracle_allocate(place->m * place->n, sizeof *head->pairs);
    head->rows = oracle_allocate(place->m, sizeof *head->rows);
    head->in = primal_inputs(problem, place);
    head->out = outputs_at(problem, place, sums, ORACLE_O, 0);
    forward(head);
    if (operation == ORACLE_VJP || operation == ORACLE_HVP)
        vjp(head);
    bool has_tangents = operation == ORACLE_JVP || operation == ORACLE_HVP;
    for (int64_t t = 0; has_tangents && t < problem->tangents; t++) {
        head->in_t = tangent_inputs(problem, place, t);
        head->out_t = outputs_at(problem, place, sums, ORACLE_TO, t);
        jvp(head);
        if (operation == ORACLE_HVP)
            hvp(head);
    }
    free(head->pairs);
    free(head->rows);
}

/* Zeroed sums for every output; lse -inf, which rows of no sequence keep. */
static void allocate_sums(const struct oracle_result *result, number *sums[ORACLE_OUTPUT_COUNT])
{
    for (int output = 0; output < ORACLE_OUTPUT_COUNT; output++) {
        const struct oracle_array *array = &result->outputs[output];
        sums[output] = array->values ? oracle_allocate(array->count, sizeof(number)) : NULL;
    }
    for (int64_t e = 0; e < result->outputs[ORACLE_LSE].count; e++)
        sums[ORACLE_LSE][e].value = -INFINITY;
}

static void store(struct oracle_array *array, const number *sum)
{
    double squares = 0;
    for (int64_t e = 0; e < array->count; e++) {
        array->values[e] = (double)sum[e].value;
        if (isfinite(sum[e].size))
            squares += (double)sum[e].size * (double)sum[e].size;
    }
    array->size = sqrt(squares);
}

void ORACLE_COMPUTE(enum oracle_operation operation, const struct oracle_problem *problem,
                    struct oracle_result *result)
{
    number *sums[ORACLE_OUTPUT_COUNT];
    oracle_result_allocate(operation, problem, result);
    allocate_sums(result, sums);
    for (int64_t b = 0; b < problem->sizes.batch; b++) {
        for (int64_t h = 0; h < problem->sizes.heads_q; h++) {
            struct head head = {.problem = problem, .place = oracle_place_of(problem, b, h)};
            compute_head(operation, &head, sums);
        }
    }
    for (int output = 0; output < ORACLE_OUTPUT_COUNT; output++) {
        if (sums[output])
            store(&result->outputs[output], sums[output]);
        free(sums[output]);
    }
}
