/* The caller's logit function: written as snippets, built-in rules give what the built-in ones do. */
#include <math.h>
#include <string.h>

#include "suite.h"

static const char softcap_snippet[] =
    "void clattn_logit(real x, int b, int h, int i, int j, __global const float *data,\n"
    "                  real *y, real *dy, real *ddy)\n"
    "{\n"
    "    const real cap = data[0], t = tanh(x / cap), slope = 1 - t * t;\n"
    "    *y = cap * t;\n"
    "    *dy = slope;\n"
    "    *ddy = -2 * t * slope / cap;\n"
    "}\n";

/* data: one slope a head, then N - M */
static const char alibi_snippet[] =
    "void clattn_logit(real x, int b, int h, int i, int j, __global const float *data,\n"
    "                  real *y, real *dy, real *ddy)\n"
    "{\n"
    "    *y = x - data[h] * fabs(i + data[2] - j);\n"
    "    *dy = 1;\n"
    "    *ddy = 0;\n"
    "}\n";

enum {
    HEADS = 2,
    QUERIES = 37,
    KEYS = 45
};

static void set_up(struct trial *trial, clattn_operation operation, const char *engine)
{
    trial_init(trial, operation, &(clattn_sizes){2, HEADS, 1, QUERIES, KEYS, 16, 16});
    trial->problem.engine = engine;
    trial_add_derivatives(trial);
}

static void use_snippet(struct trial *trial, const char *snippet)
{
    trial->problem.logit = snippet;
    trial->problem.logit_data_count = HEADS + 1;
    trial->problem.present[CLATTN_LOGIT_DATA] = true;
}

static double relative_difference(const double *a, const double *b, int64_t count)
{
    double difference = 0, norm = 0;
    for (int64_t n = 0; n < count; n++) {
        difference += (a[n] - b[n]) * (a[n] - b[n]);
        norm += b[n] * b[n];
    }
    return sqrt(difference / norm);
}

static void must_give_the_same(struct trial *snippet, struct trial *built_in, const char *what)
{
    double *ours[CLATTN_TENSOR_COUNT], *theirs[CLATTN_TENSOR_COUNT];
    bool clean;
    if (trial_compute(suite_context, snippet, ours, &clean) != CLATTN_SUCCESS ||
        trial_compute(suite_context, built_in, theirs, &clean) != CLATTN_SUCCESS)
        fail_msg("%s: %s", what, clattn_message());
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        if (!theirs[t])
            continue;
        const double difference =
            relative_difference(ours[t], theirs[t], trial_count(built_in, (clattn_tensor)t));
        if (!(difference < 2e-6))
            fail_msg("%s, %s, %s: %s differs by %.3g", built_in->problem.engine, what,
                     clattn_operation_name(built_in->operation), clattn_tensor_name((clattn_tensor)t),
                     difference);
        free(ours[t]);
        free(theirs[t]);
    }
    trial_free(snippet);
    trial_free(built_in);
}

static void softcap_case(clattn_operation operation, const char *engine)
{
    struct trial snippet, built_in;
    set_up(&snippet, operation, engine);
    set_up(&built_in, operation, engine);
    use_snippet(&snippet, softcap_snippet);
    built_in.problem.softcap = 1.25;
    trial_fill(&snippet, 21);
    trial_fill(&built_in, 21);
    snippet.values[CLATTN_LOGIT_DATA][0] = 1.25;
    must_give_the_same(&snippet, &built_in, "softcap");
}

static void alibi_case(clattn_operation operation, const char *engine)
{
    struct trial snippet, built_in;
    set_up(&snippet, operation, engine);
    set_up(&built_in, operation, engine);
    use_snippet(&snippet, alibi_snippet);
    built_in.problem.present[CLATTN_ALIBI] = true;
    trial_fill(&snippet, 22);
    trial_fill(&built_in, 22);
    for (int h = 0; h < HEADS; h++)
        snippet.values[CLATTN_LOGIT_DATA][h] = (float)built_in.values[CLATTN_ALIBI][h];
    snippet.values[CLATTN_LOGIT_DATA][HEADS] = KEYS - QUERIES;
    must_give_the_same(&snippet, &built_in, "alibi");
}

static void on_every_engine_and_operation(void (*run)(clattn_operation, const char *))
{
    FOR_EACH_ENGINE(engine, CLATTN_F32)
    for (int operation = 0; operation < CLATTN_OPERATION_COUNT; operation++)
        run((clattn_operation)operation, engine);
}
static void test_softcap_as_a_snippet(void **state)
{
    (void)state;
    on_every_engine_and_operation(softcap_case);
}
static void test_alibi_as_a_snippet(void **state)
{
    (void)state;
    on_every_engine_and_operation(alibi_case);
}

static void test_wrong_snippet_is_shown_with_its_own_line(void **state)
{
    (void)state;
    clattn_problem problem;
    clattn_plan *plan;
    clattn_problem_init(&problem, CLATTN_FORWARD, &(clattn_sizes){1, 1, 1, 4, 4, 8, 8});
    problem.logit = "void clattn_logit(real x, int b, int h, int i, int j, __global const float *data,\n"
                    "                  real *y, real *dy, real *ddy)\n"
                    "{\n"
                    "    *y = x + undeclared;\n"
                    "}\n";
    assert_int_equal(clattn_plan_create(suite_context, CLATTN_FORWARD, &problem, &plan), CLATTN_BUILD_ERROR);
    assert_null(plan);
    assert_non_null(strstr(clattn_message(), "undeclared"));
    assert_non_null(strstr(clattn_message(), "logit:4"));
    assert_null(strchr(clattn_message(), '\n'));
    assert_non_null(strstr(clattn_build_log(), "undeclared"));
}

static void test_text_of_the_snippet_need_not_outlive_the_plan(void **state)
{
    (void)state;
    char text[sizeof alibi_snippet];
    memcpy(text, alibi_snippet, sizeof text);
    clattn_problem problem;
    clattn_plan *first, *second;
    clattn_problem_init(&problem, CLATTN_FORWARD, &(clattn_sizes){1, 1, 1, 4, 4, 8, 8});
    problem.logit = text;
    assert_int_equal(clattn_plan_create(suite_context, CLATTN_FORWARD, &problem, &first), CLATTN_SUCCESS);
    memset(text, ' ', sizeof text - 1);
    problem.logit = alibi_snippet;
    const int built = clattn_context_programs_built(suite_context);
    assert_int_equal(clattn_plan_create(suite_context, CLATTN_FORWARD, &problem, &second), CLATTN_SUCCESS);
    assert_int_equal(clattn_context_programs_built(suite_context), built);
    clattn_plan_release(first);
    clattn_plan_release(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softcap_as_a_snippet),
        cmocka_unit_test(test_alibi_as_a_snippet),
        cmocka_unit_test(test_wrong_snippet_is_shown_with_its_own_line),
        cmocka_unit_test(test_text_of_the_snippet_need_not_outlive_the_plan),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
