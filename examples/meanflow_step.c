/*
 * One gradient step of a loss on an attention output and on its tangent, as
 * MeanFlow and consistency models have it:
 *
 *     loss(Q, K, V) = 1/2 |O - t O' - target|^2
 *
 * where O' is the JVP of attention along (Q', K', V'). The gradient is a
 * reverse pass over a forward-mode pass. clattn has it as one HVP call with
 * the roles of the cotangents exchanged:
 *
 *     DO  = cotangent of O'      DQ, DK, DV    = gradients for Q', K', V'
 *     TDO = cotangent of O       TDQ, TDK, TDV = gradients for Q, K, V
 *
 * The program takes the gradient so, checks it against finite differences of
 * the loss, does one step of gradient descent and sees the loss fall. It
 * computes in f64, so that finite differences say something.
 */
#include <clattn/clattn.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    BATCH = 1,
    HEADS = 2,
    TOKENS = 24,
    HEAD_DIM = 8,
    COUNT = BATCH * HEADS * TOKENS * HEAD_DIM
};

static const clattn_sizes sizes = {BATCH, HEADS, HEADS, TOKENS, TOKENS, HEAD_DIM, HEAD_DIM};
static const double time_step = 0.5;

/* Queries, keys and values, and the direction that their tangents point in. */
struct model {
    double q[COUNT], k[COUNT], v[COUNT];
    double tq[COUNT], tk[COUNT], tv[COUNT];
    double target[COUNT];
};

static void must(clattn_status status)
{
    if (status == CLATTN_SUCCESS)
        return;
    fprintf(stderr, "%s\n", clattn_message());
    exit(status == CLATTN_UNSUPPORTED ? 77 : 1); /* 77: CTest's "skipped", a device without f64 */
}

static void fill(double *values, double frequency)
{
    for (int n = 0; n < COUNT; n++)
        values[n] = sin(frequency * (n + 1)) + cos(frequency * 0.37 * n * n);
}

static clattn_problem problem_with_tangents(clattn_operation operation)
{
    clattn_problem problem;
    clattn_problem_init(&problem, operation, &sizes);
    problem.dtype = problem.out_dtype = CLATTN_F64;
    problem.causal = CLATTN_CAUSAL_TOP_LEFT;
    problem.present[CLATTN_TQ] = problem.present[CLATTN_TK] = problem.present[CLATTN_TV] = true;
    return problem;
}

static void set_inputs(struct model *m, void *arrays[CLATTN_TENSOR_COUNT])
{
    arrays[CLATTN_Q] = m->q, arrays[CLATTN_K] = m->k, arrays[CLATTN_V] = m->v;
    arrays[CLATTN_TQ] = m->tq, arrays[CLATTN_TK] = m->tk, arrays[CLATTN_TV] = m->tv;
}

/* The loss, and the residual O - t O' - target that its cotangents are made of. */
static double loss(clattn_context *context, struct model *m, double residual[COUNT])
{
    static double o[COUNT], to[COUNT];
    clattn_problem problem = problem_with_tangents(CLATTN_JVP);
    problem.present[CLATTN_LSE] = problem.present[CLATTN_TLSE] = false;
    void *arrays[CLATTN_TENSOR_COUNT] = {NULL};
    set_inputs(m, arrays);
    arrays[CLATTN_O] = o, arrays[CLATTN_TO] = to;
    must(clattn_compute(context, CLATTN_JVP, &problem, arrays));
    double sum = 0;
    for (int n = 0; n < COUNT; n++) {
        residual[n] = o[n] - time_step * to[n] - m->target[n];
        sum += residual[n] * residual[n] / 2;
    }
    return sum;
}

/* d loss / d (Q, K, V), from the residual. */
static void gradient(clattn_context *context, struct model *m, double residual[COUNT], double dq[COUNT],
                     double dk[COUNT], double dv[COUNT])
{
    static double o_bar[COUNT], t_bar[COUNT];
    for (int n = 0; n < COUNT; n++) {
        o_bar[n] = residual[n];
        t_bar[n] = -time_step * residual[n];
    }
    clattn_problem problem = problem_with_tangents(CLATTN_HVP);
    problem.present[CLATTN_TDO] = true;
    static const clattn_tensor wanted[] = {CLATTN_TDQ, CLATTN_TDK, CLATTN_TDV};
    for (int t = CLATTN_O; t < CLATTN_TENSOR_COUNT; t++)
        problem.present[t] = false;
    for (int i = 0; i < 3; i++)
        problem.present[wanted[i]] = true;
    void *arrays[CLATTN_TENSOR_COUNT] = {NULL};
    set_inputs(m, arrays);
    arrays[CLATTN_DO] = t_bar, arrays[CLATTN_TDO] = o_bar;
    arrays[CLATTN_TDQ] = dq, arrays[CLATTN_TDK] = dk, arrays[CLATTN_TDV] = dv;
    must(clattn_compute(context, CLATTN_HVP, &problem, arrays));
}

/* The largest difference between a gradient and central differences of the loss, over some elements. */
static double worst_difference(clattn_context *context, struct model *m, double *values,
                               const double *gradient_of)
{
    static double unused[COUNT];
    const double step = 1e-5;
    double worst = 0;
    for (int n = 3; n < COUNT; n += 37) {
        const double kept = values[n];
        values[n] = kept + step;
        const double above = loss(context, m, unused);
        values[n] = kept - step;
        const double below = loss(context, m, unused);
        values[n] = kept;
        worst = fmax(worst, fabs((above - below) / (2 * step) - gradient_of[n]));
    }
    return worst;
}

static void descend(double *values, const double *gradient_of, double rate)
{
    for (int n = 0; n < COUNT; n++)
        values[n] -= rate * gradient_of[n];
}

int main(void)
{
    static struct model m;
    static double residual[COUNT], dq[COUNT], dk[COUNT], dv[COUNT];
    fill(m.q, 0.7), fill(m.k, 1.1), fill(m.v, 1.7);
    fill(m.tq, 0.3), fill(m.tk, 0.5), fill(m.tv, 0.9);
    fill(m.target, 2.3);

    clattn_context *context;
    must(clattn_context_open(NULL, &context));
    const double before = loss(context, &m, residual);
    gradient(context, &m, residual, dq, dk, dv);
    const double worst =
        fmax(worst_difference(context, &m, m.q, dq),
             fmax(worst_difference(context, &m, m.k, dk), worst_difference(context, &m, m.v, dv)));
    descend(m.q, dq, 0.05), descend(m.k, dk, 0.05), descend(m.v, dv, 0.05);
    const double after = loss(context, &m, residual);
    clattn_context_release(context);

    printf("loss %.6f, after one step %.6f; gradient off finite differences by %.1e at most\n", before, after,
           worst);
    return worst < 1e-7 && after < before ? 0 : 1;
}
