/* Defends what a context builds and what a call holds: programs by facts alone, memory of O(B H (M+N) D). */
#include "clattn/clattn.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "numeric/suite.h"
#include "support/fake_cl.h"

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof *(array)))

/* ---- programs ---- */

/* The problem that all others are compared with. */
static clattn_problem base_problem(clattn_operation operation, const char *engine)
{
    clattn_problem problem;
    clattn_problem_init(&problem, operation, &(clattn_sizes){2, 4, 2, 237, 145, 16, 16});
    problem.engine = engine;
    problem.softcap = 20;
    problem.present[CLATTN_MASK] = true;
    if (operation == CLATTN_JVP || operation == CLATTN_HVP)
        problem.present[CLATTN_TQ] = problem.present[CLATTN_TK] = problem.present[CLATTN_TV] = true;
    return problem;
}

/* Programs that planning a problem builds; -1 if the engine does not take it. */
static int programs_for(clattn_context *context, clattn_operation operation, const clattn_problem *problem)
{
    const int before = clattn_context_programs_built(context);
    clattn_plan *plan;
    const clattn_status status = clattn_plan_create(context, operation, problem, &plan);
    if (status == CLATTN_UNSUPPORTED)
        return -1;
    if (status != CLATTN_SUCCESS)
        fail_msg("%s, %s: %s", problem->engine ? problem->engine : "any engine",
                 clattn_operation_name(operation), clattn_message());
    clattn_plan_release(plan);
    return clattn_context_programs_built(context) - before;
}

static void resize(clattn_problem *problem, const clattn_sizes *sizes)
{
    problem->batch = sizes->batch;
    problem->heads_q = sizes->heads_q;
    problem->heads_kv = sizes->heads_kv;
    problem->queries = sizes->queries;
    problem->keys = sizes->keys;
    problem->head_dim = sizes->head_dim;
    problem->head_dim_v = sizes->head_dim_v;
    clattn_problem_set_contiguous(problem, false);
}

static void change_lengths(clattn_problem *p) { resize(p, &(clattn_sizes){2, 4, 2, 200, 1000, 16, 16}); }
static void change_batch(clattn_problem *p) { resize(p, &(clattn_sizes){5, 4, 2, 237, 145, 16, 16}); }
static void change_heads(clattn_problem *p) { resize(p, &(clattn_sizes){2, 3, 3, 237, 145, 16, 16}); }
static void change_head_dims_within_their_class(clattn_problem *p)
{
    resize(p, &(clattn_sizes){2, 4, 2, 237, 145, 9, 13});
}
static void change_layout(clattn_problem *p) { clattn_problem_set_contiguous(p, true); }
static void change_row_stride(clattn_problem *p) { p->strides[CLATTN_K].row += 5; }
static void change_mask_to_a_broadcast_one(clattn_problem *p)
{
    p->strides[CLATTN_MASK] = (clattn_strides){.column = 1};
}
static void change_scale(clattn_problem *p) { p->scale = -2; }
static void change_softcap(clattn_problem *p) { p->softcap = 1; }
static void change_window(clattn_problem *p) { p->window_left = 3, p->window_right = 8; }
static void change_to_top_left(clattn_problem *p) { p->causal = CLATTN_CAUSAL_TOP_LEFT; }
static void change_to_bottom_right(clattn_problem *p) { p->causal = CLATTN_CAUSAL_BOTTOM_RIGHT; }
static void give_lengths(clattn_problem *p) { p->present[CLATTN_KV_LENGTHS] = true; }
static void leave_out_lse(clattn_problem *p) { p->present[CLATTN_LSE] = false; }

typedef void change(clattn_problem *problem);

static change *const arguments[] = {
    change_lengths, change_batch,      change_heads,       change_head_dims_within_their_class,
    change_layout,  change_row_stride, change_scale,       change_mask_to_a_broadcast_one,
    change_softcap, change_window,     change_to_top_left, change_to_bottom_right,
    give_lengths,   leave_out_lse,
};

static void test_arguments_build_no_program(void **state)
{
    (void)state;
    for (int e = 0; clattn_engine_name(e); e++)
        for (int operation = 0; operation < CLATTN_OPERATION_COUNT; operation++) {
            clattn_problem problem = base_problem((clattn_operation)operation, clattn_engine_name(e));
            if (programs_for(suite_context, (clattn_operation)operation, &problem) < 0)
                continue;
            for (int i = 0; i < COUNT_OF(arguments); i++) {
                problem = base_problem((clattn_operation)operation, clattn_engine_name(e));
                arguments[i](&problem);
                const int built = programs_for(suite_context, (clattn_operation)operation, &problem);
                if (built != 0)
                    fail_msg("%s, %s, argument %d: %d programs built", clattn_engine_name(e),
                             clattn_operation_name((clattn_operation)operation), i, built);
            }
        }
}

static void drop_mask(clattn_problem *p) { p->present[CLATTN_MASK] = false; }
static void drop_softcap(clattn_problem *p) { p->softcap = 0; }
static void add_bias(clattn_problem *p) { p->present[CLATTN_BIAS] = true; }
static void drop_tangent(clattn_problem *p) { p->present[CLATTN_TK] = false; }
static void add_tangent(clattn_problem *p) { p->tangents = 2, clattn_problem_set_contiguous(p, false); }
static void change_type(clattn_problem *p) { p->dtype = CLATTN_F16; }
static void change_both_types(clattn_problem *p) { p->dtype = p->out_dtype = CLATTN_F16; }
static void change_class_of_head_dim(clattn_problem *p)
{
    resize(p, &(clattn_sizes){2, 4, 2, 237, 145, 17, 16});
}
static void change_class_of_value_head_dim(clattn_problem *p)
{
    resize(p, &(clattn_sizes){2, 4, 2, 237, 145, 16, 17});
}

static change *const facts[] = {
    drop_mask,
    drop_softcap,
    add_bias,
    drop_tangent,
    add_tangent,
    change_type,
    change_both_types,
    change_class_of_head_dim,
    change_class_of_value_head_dim,
};

/* The first plan builds one, the second none. */
static void must_build_once(clattn_context *context, clattn_operation operation,
                            const clattn_problem *problem, int fact)
{
    const int first = programs_for(context, operation, problem);
    const int second = programs_for(context, operation, problem);
    if (first >= 0 && (first != 1 || second != 0))
        fail_msg("%s, fact %d: %d programs built, then %d", problem->engine, fact, first, second);
}

static void test_each_fact_builds_one_program_once(void **state)
{
    (void)state;
    for (int e = 0; clattn_engine_name(e); e++) {
        clattn_context *context;
        assert_int_equal(clattn_context_open(getenv("CLATTN_TEST_DEVICE"), &context), CLATTN_SUCCESS);
        clattn_problem problem = base_problem(CLATTN_JVP, clattn_engine_name(e));
        must_build_once(context, CLATTN_JVP, &problem, -1);
        for (int i = 0; i < COUNT_OF(facts); i++) {
            problem = base_problem(CLATTN_JVP, clattn_engine_name(e));
            facts[i](&problem);
            must_build_once(context, CLATTN_JVP, &problem, i);
        }
        problem = base_problem(CLATTN_FORWARD, clattn_engine_name(e));
        must_build_once(context, CLATTN_FORWARD, &problem, -1);
        clattn_context_release(context);
    }
}

static void *plan_base_problem(void *context)
{
    const clattn_problem problem = base_problem(CLATTN_FORWARD, "reference");
    clattn_plan *plan = NULL;
    if (clattn_plan_create(context, CLATTN_FORWARD, &problem, &plan) != CLATTN_SUCCESS)
        return NULL;
    clattn_plan_release(plan);
    return context;
}

static void test_threads_that_plan_at_once_build_a_program_once(void **state)
{
    (void)state;
    clattn_context *context;
    assert_int_equal(clattn_context_open(getenv("CLATTN_TEST_DEVICE"), &context), CLATTN_SUCCESS);
    pthread_t threads[4];
    for (int i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, plan_base_problem, context), 0);
    for (int i = 0; i < COUNT_OF(threads); i++) {
        void *done;
        pthread_join(threads[i], &done);
        assert_non_null(done);
    }
    assert_int_equal(clattn_context_programs_built(context), 1);
    clattn_context_release(context);
}

static void test_an_unknown_engine_is_refused_with_those_there_are(void **state)
{
    (void)state;
    const clattn_problem problem = base_problem(CLATTN_FORWARD, "warp drive");
    clattn_plan *plan = (clattn_plan *)(void *)&plan;
    assert_int_equal(clattn_plan_create(suite_context, CLATTN_FORWARD, &problem, &plan),
                     CLATTN_INVALID_ARGUMENT);
    assert_null(plan);
    assert_non_null(strstr(clattn_message(), "warp drive"));
    for (int e = 0; e < clattn_engine_count(); e++)
        assert_non_null(strstr(clattn_message(), clattn_engine_name(e)));
    assert_null(clattn_engine_name(clattn_engine_count()));
    assert_null(clattn_engine_name(-1));
}

static void test_wrong_arguments_of_a_plan_are_named(void **state)
{
    (void)state;
    const clattn_problem problem = base_problem(CLATTN_FORWARD, NULL);
    clattn_plan *plan;
    clattn_plan_info info;
    assert_int_equal(clattn_plan_create(NULL, CLATTN_FORWARD, &problem, &plan), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_message(), "context: NULL"));
    assert_int_equal(clattn_plan_create(suite_context, CLATTN_FORWARD, NULL, &plan), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_message(), "problem: NULL"));
    assert_null(plan);
    assert_int_equal(clattn_plan_create(suite_context, CLATTN_FORWARD, &problem, NULL),
                     CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_message(), "plan: NULL"));
    assert_int_equal(clattn_plan_describe(NULL, &info), CLATTN_INVALID_ARGUMENT);
    assert_int_equal(clattn_plan_create(suite_context, CLATTN_FORWARD, &problem, &plan), CLATTN_SUCCESS);
    assert_int_equal(clattn_plan_describe(plan, NULL), CLATTN_INVALID_ARGUMENT);
    clattn_plan_release(plan);
    clattn_plan_release(NULL);
}

/* What a plan says of itself: products x 2 B Hq M N D, each tensor once. */
static void test_a_plan_tells_its_work(void **state)
{
    (void)state;
    clattn_problem problem = base_problem(CLATTN_JVP, "reference");
    clattn_plan *plan;
    clattn_plan_info info;
    assert_int_equal(clattn_plan_create(suite_context, CLATTN_JVP, &problem, &plan), CLATTN_SUCCESS);
    assert_int_equal(clattn_plan_describe(plan, &info), CLATTN_SUCCESS);
    clattn_plan_release(plan);
    assert_int_equal(info.operation, CLATTN_JVP);
    assert_string_equal(info.engine, "reference");
    assert_true(info.flops == 6 * 2.0 * 2 * 4 * 237 * 145 * 16);
    assert_true(*info.tiles && *info.reason);
    size_t bytes = 0;
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        bytes += problem.present[t] ? clattn_problem_bytes(&problem, (clattn_tensor)t) : 0;
    assert_int_equal(info.bytes, bytes);
    problem.causal = CLATTN_CAUSAL_TOP_LEFT;
    assert_int_equal(clattn_plan_create(suite_context, CLATTN_JVP, &problem, &plan), CLATTN_SUCCESS);
    assert_int_equal(clattn_plan_describe(plan, &info), CLATTN_SUCCESS);
    clattn_plan_release(plan);
    assert_true(info.flops == 6.0 * 2 * 4 * 237 * 145 * 16);
}

/* ---- memory ---- */

/* A problem without a mask: what has M x N elements is the caller's own. */
static clattn_problem long_problem(clattn_operation operation, const char *engine, int64_t length)
{
    clattn_problem problem = base_problem(operation, engine);
    problem.softcap = 0;
    problem.present[CLATTN_MASK] = false;
    resize(&problem, &(clattn_sizes){1, 2, 2, length, length, 16, 16});
    return problem;
}

/* Bytes that all buffers of a call hold, by what its plan says; 0 if the engine does not take it. */
static uint64_t held_bytes(clattn_operation operation, const clattn_problem *problem)
{
    clattn_plan *plan;
    clattn_plan_info info;
    if (programs_for(suite_context, operation, problem) < 0)
        return 0;
    assert_int_equal(clattn_plan_create(suite_context, operation, problem, &plan), CLATTN_SUCCESS);
    assert_int_equal(clattn_plan_describe(plan, &info), CLATTN_SUCCESS);
    clattn_plan_release(plan);
    uint64_t bytes = info.workspace_bytes;
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        bytes += problem->present[t] ? clattn_problem_bytes(problem, (clattn_tensor)t) : 0;
    return bytes;
}

/* Up to 15 tensors of B H (M or N) D elements, a few rows of sums, and scratch as large again. */
static void test_memory_grows_with_the_lengths_and_not_their_product(void **state)
{
    (void)state;
    for (int e = 0; clattn_engine_name(e); e++)
        for (int operation = 0; operation < CLATTN_OPERATION_COUNT; operation++)
            for (int64_t length = 1 << 10; length <= 1 << 20; length *= 4) {
                const clattn_problem problem =
                    long_problem((clattn_operation)operation, clattn_engine_name(e), length);
                const uint64_t row_bytes = 1 * 2 * (uint64_t)(length + length) * 16 * 4;
                const uint64_t held = held_bytes((clattn_operation)operation, &problem);
                if (held > 20 * row_bytes)
                    fail_msg("%s, %s of %lld: %llu bytes", clattn_engine_name(e),
                             clattn_operation_name((clattn_operation)operation), (long long)length,
                             (unsigned long long)held);
            }
}

/* A buffer for each tensor, one of the plan's facts, and one of scratch where there is any. */
static void test_a_call_makes_the_buffers_that_it_says(void **state)
{
    (void)state;
    enum {
        LENGTH = 512,
        LARGEST = 2 * LENGTH * 16 * 4
    };
    float *zeros = calloc(1, LARGEST);
    for (int operation = 0; operation < CLATTN_OPERATION_COUNT; operation++) {
        const clattn_problem problem = long_problem((clattn_operation)operation, NULL, LENGTH);
        const uint64_t held = held_bytes((clattn_operation)operation, &problem);
        if (held == 0)
            continue;
        void *arrays[CLATTN_TENSOR_COUNT] = {NULL};
        int tensors = 0;
        for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
            if (problem.present[t]) {
                const bool output =
                    clattn_problem_is_output(&problem, (clattn_operation)operation, (clattn_tensor)t);
                arrays[t] = output ? calloc(1, LARGEST) : zeros;
                tensors++;
            }
        fake_cl_reset();
        assert_int_equal(clattn_compute(suite_context, (clattn_operation)operation, &problem, arrays),
                         CLATTN_SUCCESS);
        const struct fake_cl_buffers made = fake_cl_buffers();
        assert_in_range(made.count, tensors, tensors + 2);
        assert_in_range(made.bytes, held, held + 16 * 1024);
        assert_int_equal(fake_cl_objects(), 0);
        for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
            if (arrays[t] != zeros)
                free(arrays[t]);
    }
    free(zeros);
}

/* The caller's buffers are all there is, besides one small one that a plan owns. */
static void test_planning_makes_one_small_buffer_and_enqueueing_none(void **state)
{
    (void)state;
    const clattn_problem problem = long_problem(CLATTN_FORWARD, NULL, 64);
    fake_cl_reset();
    clattn_plan *plan;
    assert_int_equal(clattn_plan_create(suite_context, CLATTN_FORWARD, &problem, &plan), CLATTN_SUCCESS);
    assert_in_range(fake_cl_buffers().count, 0, 1);
    assert_in_range(fake_cl_buffers().bytes, 0, 16 * 1024);

    clattn_buffer buffers[CLATTN_TENSOR_COUNT] = {{NULL, 0}};
    cl_context cl = clattn_context_cl(suite_context);
    cl_command_queue queue = clCreateCommandQueue(cl, clattn_context_device(suite_context), 0, NULL);
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        if (problem.present[t])
            buffers[t].memory = clCreateBuffer(cl, CL_MEM_READ_WRITE,
                                               clattn_problem_bytes(&problem, (clattn_tensor)t), NULL, NULL);
    const int before = fake_cl_buffers().count, objects = fake_cl_objects();
    for (int call = 0; call < 3; call++)
        assert_int_equal(clattn_enqueue(plan, queue, buffers, NULL, 0, NULL, NULL), CLATTN_SUCCESS);
    assert_int_equal(clFinish(queue), CL_SUCCESS);
    assert_int_equal(fake_cl_buffers().count, before);
    assert_int_equal(fake_cl_objects(), objects);

    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        if (buffers[t].memory)
            clReleaseMemObject(buffers[t].memory);
    clReleaseCommandQueue(queue);
    clattn_plan_release(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments_build_no_program),
        cmocka_unit_test(test_each_fact_builds_one_program_once),
        cmocka_unit_test(test_threads_that_plan_at_once_build_a_program_once),
        cmocka_unit_test(test_an_unknown_engine_is_refused_with_those_there_are),
        cmocka_unit_test(test_wrong_arguments_of_a_plan_are_named),
        cmocka_unit_test(test_a_plan_tells_its_work),
        cmocka_unit_test(test_memory_grows_with_the_lengths_and_not_their_product),
        cmocka_unit_test(test_a_call_makes_the_buffers_that_it_says),
        cmocka_unit_test(test_planning_makes_one_small_buffer_and_enqueueing_none),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
