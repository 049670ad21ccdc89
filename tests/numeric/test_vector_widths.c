/* Engines with vectors are right at every width that a CPU may have, whatever this one has. */
#include <stdio.h>

#include "suite.h"
#include "support/fake_cl.h"

static clattn_context *open_with_vectors_of(int floats)
{
    clattn_context *context;
    fake_cl_set_vector_width(floats);
    assert_int_equal(clattn_context_open(getenv("CLATTN_TEST_DEVICE"), &context), CLATTN_SUCCESS);
    fake_cl_set_vector_width(0);
    return context;
}

/* Two tiles of queries and of keys, neither whole; every product, staging in both directions. */
static void run(clattn_context *context, clattn_operation operation, clattn_dtype dtype, int64_t head_dim)
{
    struct trial trial;
    struct trial_report report;
    trial_init(&trial, operation, &(clattn_sizes){1, 4, 2, 61, 83, head_dim, head_dim + 3});
    clattn_problem *p = &trial.problem;
    p->dtype = p->out_dtype = p->bias_dtype = dtype;
    p->engine = "cpu";
    p->causal = CLATTN_CAUSAL_BOTTOM_RIGHT;
    trial_add_derivatives(&trial);
    p->present[CLATTN_MASK] = p->present[CLATTN_Q_SEGMENTS] = p->present[CLATTN_KV_SEGMENTS] = true;
    trial_add_bias(&trial, 3);
    trial_fill(&trial, 7);
    trial_run(context, &trial, &report);
    if (!report.passed)
        fail_msg("%s %s: %s", clattn_operation_name(operation), clattn_dtype_name(dtype), report.message);
    trial_free(&trial);
}

/* A tile of f32 has one to three vectors of outer rows. */
static void must_take_vectors_of(clattn_context *context, int floats)
{
    clattn_problem problem;
    clattn_plan *plan;
    clattn_plan_info info;
    int outer = 0;
    clattn_problem_init(&problem, CLATTN_FORWARD, &(clattn_sizes){1, 1, 1, 200, 200, 16, 16});
    problem.engine = "cpu";
    assert_int_equal(clattn_plan_create(context, CLATTN_FORWARD, &problem, &plan), CLATTN_SUCCESS);
    assert_int_equal(clattn_plan_describe(plan, &info), CLATTN_SUCCESS);
    assert_int_equal(sscanf(info.tiles, "%dx", &outer), 1);
    assert_int_equal(outer, 3 * floats);
    clattn_plan_release(plan);
}

static void run_all(int floats)
{
    if (!suite_device().is_cpu) {
        print_message("skipped: the device is no CPU\n");
        skip();
    }
    clattn_context *context = open_with_vectors_of(floats);
    must_take_vectors_of(context, floats);
    run(context, CLATTN_HVP, CLATTN_F32, 13);
    run(context, CLATTN_HVP, CLATTN_F16, 40);
    if (suite_device().has_fp64)
        run(context, CLATTN_HVP, CLATTN_F64, 13);
    clattn_context_release(context);
}

static void test_vectors_of_4(void **state)
{
    (void)state;
    run_all(4);
}
static void test_vectors_of_8(void **state)
{
    (void)state;
    run_all(8);
}
static void test_vectors_of_16(void **state)
{
    (void)state;
    run_all(16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors_of_4),
        cmocka_unit_test(test_vectors_of_8),
        cmocka_unit_test(test_vectors_of_16),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
