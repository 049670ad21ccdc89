/* Few queries and many keys: the keys are split, and the parts put together give what one pass gives. */
#include <math.h>

#include "suite.h"

/* Of one head: several steps for every part of the keys on every engine. */
static const clattn_sizes few_queries = {1, 1, 1, 3, 1500, 16, 16};

static void nothing(struct trial *trial) { (void)trial; }

static void causal(struct trial *trial) { trial->problem.causal = CLATTN_CAUSAL_BOTTOM_RIGHT; }

/* The first part has all that is seen; the others are empty. */
static void narrow_window(struct trial *trial)
{
    trial->problem.causal = CLATTN_CAUSAL_TOP_LEFT;
    trial->problem.window_left = 1;
}

static void sink(struct trial *trial)
{
    trial->problem.present[CLATTN_SINK] = true;
    trial->problem.present[CLATTN_TSINK] = trial->operation == CLATTN_JVP;
}

static void short_length(struct trial *trial) { trial->problem.present[CLATTN_KV_LENGTHS] = true; }

static void mask(struct trial *trial)
{
    trial->problem.present[CLATTN_MASK] = true;
    clattn_problem_set_contiguous(&trial->problem, false);
}

/* A query that attends to nothing. */
static void empty_row(struct trial *trial)
{
    for (int64_t j = 0; j < few_queries.keys; j++)
        trial->values[CLATTN_MASK][few_queries.keys + j] = 0;
}

/* NaN in keys that no query attends to. */
static void masked_nan(struct trial *trial)
{
    for (int64_t i = 0; i < few_queries.queries; i++)
        trial->values[CLATTN_MASK][i * few_queries.keys + 700] = 0;
    for (int64_t d = 0; d < few_queries.head_dim; d++)
        trial->values[CLATTN_K][700 * few_queries.head_dim + d] =
            trial->values[CLATTN_V][700 * few_queries.head_dim + d] = (double)NAN;
}

/* Every logit of a part, but not of the row, is -inf. */
static void infinite_part(struct trial *trial)
{
    trial->values[CLATTN_Q][0] = 1;
    for (int64_t j = 0; j < few_queries.keys / 2; j++)
        trial->values[CLATTN_K][j * few_queries.head_dim] = -(double)INFINITY;
}

static const struct {
    const char *name;
    void (*set)(struct trial *trial);
    void (*finish)(struct trial *trial);
} cases[] = {
    {"plain", nothing, nothing},
    {"causal", causal, nothing},
    {"narrow window", narrow_window, nothing},
    {"sink", sink, nothing},
    {"short length", short_length, nothing},
    {"mask, an empty row", mask, empty_row},
    {"mask, NaN where masked", mask, masked_nan},
};
#define CASES ((int)(sizeof cases / sizeof *cases))

static void run(clattn_operation operation, int64_t tangents, int n)
{
    struct trial trial;
    trial_init(&trial, operation, &few_queries);
    trial.problem.tangents = tangents;
    trial_add_derivatives(&trial);
    cases[n].set(&trial);
    trial_fill(&trial, (uint64_t)n + 1);
    cases[n].finish(&trial);
    must_pass(&trial, cases[n].name);
}

static void test_forward(void **state)
{
    (void)state;
    for (int n = 0; n < CASES; n++)
        run(CLATTN_FORWARD, 1, n);
}

static void test_jvp(void **state)
{
    (void)state;
    for (int n = 0; n < CASES; n++)
        run(CLATTN_JVP, 1, n);
}

/* More tangents than one pass takes: the parts serve several passes. */
static void test_many_tangents(void **state)
{
    (void)state;
    run(CLATTN_JVP, 10, 0);
}

static void test_under_the_gradients(void **state)
{
    (void)state;
    run(CLATTN_HVP, 1, 0);
    run(CLATTN_HVP, 1, 5);
}

/* A part all of whose logits are -inf has no weight beside others; a row all of whose logits are shows it. */
static void test_an_infinite_part_has_no_weight(void **state)
{
    (void)state;
    struct trial trial;
    trial_init(&trial, CLATTN_FORWARD, &few_queries);
    trial_fill(&trial, 1);
    infinite_part(&trial);
    for (int64_t i = 1; i < few_queries.queries; i++)
        trial.values[CLATTN_Q][i * few_queries.head_dim] = 1;
    must_pass(&trial, "a part at -inf");
}

static void test_the_keys_are_split(void **state)
{
    (void)state;
    FOR_EACH_ENGINE(engine, CLATTN_F32)
    {
        struct trial trial;
        trial_init(&trial, CLATTN_FORWARD, &few_queries);
        trial.problem.engine = engine;
        clattn_plan *plan;
        assert_int_equal(clattn_plan_create(suite_context, CLATTN_FORWARD, &trial.problem, &plan),
                         CLATTN_SUCCESS);
        clattn_plan_info info;
        assert_int_equal(clattn_plan_describe(plan, &info), CLATTN_SUCCESS);
        assert_true(info.workspace_bytes > 0);
        clattn_plan_release(plan);
        trial_free(&trial);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_keys_are_split),
        cmocka_unit_test(test_forward),
        cmocka_unit_test(test_jvp),
        cmocka_unit_test(test_many_tangents),
        cmocka_unit_test(test_under_the_gradients),
        cmocka_unit_test(test_an_infinite_part_has_no_weight),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
