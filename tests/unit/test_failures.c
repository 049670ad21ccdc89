/*
 * Defends against calls that fail: every OpenCL call and every allocation of
 * the library fails once, the 1st, the 2nd, the 3rd... until all goes well.
 * Each time the library must say so, write nothing and lose nothing.
 */
#include "clattn/clattn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/fake_cl.h"

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof *(array)))
#define UNTOUCHED 0xa5

static const char *device_name(void) { return getenv("CLATTN_TEST_DEVICE"); }

/* ---- what is done while calls fail ---- */

/* A small problem with its arrays, all of them in one block. */
struct subject {
    clattn_operation operation;
    clattn_problem problem;
    void *arrays[CLATTN_TENSOR_COUNT];
    unsigned char memory[64 * 1024];
    clattn_context *context; /* with the programs built, where there is one */
};

static bool is_output(const struct subject *subject, int t)
{
    return clattn_problem_is_output(&subject->problem, subject->operation, (clattn_tensor)t);
}

static void fill_outputs(struct subject *subject)
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        if (subject->arrays[t] && is_output(subject, t))
            memset(subject->arrays[t], UNTOUCHED, clattn_problem_bytes(&subject->problem, (clattn_tensor)t));
}

/* Name of an output of which a byte has changed, or NULL. */
static const char *touched_output(const struct subject *subject)
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        const unsigned char *bytes = subject->arrays[t];
        const size_t count =
            bytes && is_output(subject, t) ? clattn_problem_bytes(&subject->problem, (clattn_tensor)t) : 0;
        for (size_t i = 0; i < count; i++)
            if (bytes[i] != UNTOUCHED)
                return clattn_tensor_name((clattn_tensor)t);
    }
    return NULL;
}

static void lay_out(struct subject *subject)
{
    size_t used = 0;
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        if (!subject->problem.present[t])
            continue;
        const size_t bytes = clattn_problem_bytes(&subject->problem, (clattn_tensor)t);
        subject->arrays[t] = subject->memory + used;
        used += (bytes + 7) / 8 * 8;
        assert_true(used <= sizeof subject->memory);
    }
}

/* Inputs are 0, which is data as good as any. Nine tangents take two passes over the keys. */
static void prepare(struct subject *subject, clattn_operation operation, int64_t tangents)
{
    memset(subject, 0, sizeof *subject);
    subject->operation = operation;
    clattn_problem_init(&subject->problem, operation, &(clattn_sizes){1, 1, 1, 3, 5, 16, 16});
    subject->problem.engine = "reference"; /* the quickest to build */
    subject->problem.tangents = tangents;
    clattn_problem_set_contiguous(&subject->problem, false);
    if (operation == CLATTN_JVP || operation == CLATTN_HVP)
        subject->problem.present[CLATTN_TQ] = subject->problem.present[CLATTN_TV] = true;
    lay_out(subject);
}

static clattn_status compute(struct subject *subject)
{
    return clattn_compute(subject->context, subject->operation, &subject->problem, subject->arrays);
}

static clattn_status open_and_compute(struct subject *subject)
{
    clattn_status status = clattn_context_open(device_name(), &subject->context);
    if (status == CLATTN_SUCCESS)
        status = compute(subject);
    else
        assert_null(subject->context);
    clattn_context_release(subject->context);
    subject->context = NULL;
    return status;
}

/* ---- the n-th call fails ---- */

typedef clattn_status step(struct subject *subject);
typedef void injection(int n);

static void injected_shortage(int n) { fake_cl_fail_call(n, CL_OUT_OF_RESOURCES); }
static void injected_refusal(int n) { fake_cl_fail_call(n, CL_INVALID_VALUE); }
static void injected_build_failure(int n) { fake_cl_fail_call(n, CL_BUILD_PROGRAM_FAILURE); }

/* Leaves a message that no failure to come has, so that an old one is not taken for a new one. */
static const char *leave_old_message(char *old, size_t size)
{
    clattn_problem_check(NULL, CLATTN_FORWARD);
    snprintf(old, size, "%s", clattn_message());
    return old;
}

/* A platform that cannot list its devices has none; another may have the one that is wanted. */
static bool may_be_survived(const char *function) { return strcmp(function, "clGetDeviceIDs") == 0; }

static void must_have_failed_well(const struct subject *subject, clattn_status status, const char *old, int n)
{
    const char *function = fake_cl_failed();
    if (status == CLATTN_SUCCESS && !may_be_survived(function))
        fail_msg("call %d, %s, fails: success", n, function);
    if (status != CLATTN_SUCCESS && (!*clattn_message() || strcmp(clattn_message(), old) == 0))
        fail_msg("call %d, %s, fails: no message", n, function);
    if (status != CLATTN_SUCCESS && touched_output(subject))
        fail_msg("call %d, %s, fails: '%s' is written", n, function, touched_output(subject));
    if (fake_cl_objects() != 0)
        fail_msg("call %d, %s, fails: %d OpenCL objects leak", n, function, fake_cl_objects());
    if (fake_cl_blocks() != 0)
        fail_msg("call %d, %s, fails: %d blocks of memory leak", n, function, fake_cl_blocks());
}

/* Returns how many calls there are to fail. */
static int fail_each_in_turn(injection *inject, step *run, struct subject *subject)
{
    char old[256];
    for (int n = 1;; n++) {
        fill_outputs(subject);
        leave_old_message(old, sizeof old);
        fake_cl_reset();
        inject(n);
        const clattn_status status = run(subject);
        if (!fake_cl_failed()) {
            fake_cl_reset();
            assert_int_equal(status, CLATTN_SUCCESS);
            return n - 1;
        }
        must_have_failed_well(subject, status, old, n);
    }
}

/* ---- tests ---- */

static injection *const injections[] = {injected_shortage, injected_refusal, injected_build_failure,
                                        fake_cl_fail_allocation};

static void test_each_call_of_opening_and_computing_may_fail(void **state)
{
    (void)state;
    struct subject *subject = malloc(sizeof *subject);
    prepare(subject, CLATTN_FORWARD, 1);
    for (int i = 0; i < COUNT_OF(injections); i++)
        assert_true(fail_each_in_turn(injections[i], open_and_compute, subject) > 5);
    free(subject);
}

/* With the programs built, for all operations and with several launches. */
static void test_each_call_of_computing_may_fail(void **state)
{
    (void)state;
    struct subject *subject = malloc(sizeof *subject);
    clattn_context *context;
    assert_int_equal(clattn_context_open(device_name(), &context), CLATTN_SUCCESS);
    for (int operation = 0; operation < CLATTN_OPERATION_COUNT; operation++) {
        const bool tangents = operation == CLATTN_JVP || operation == CLATTN_HVP;
        prepare(subject, (clattn_operation)operation, tangents ? 9 : 1);
        subject->context = context;
        if (compute(subject) == CLATTN_UNSUPPORTED && strstr(clattn_message(), "not built yet"))
            continue;
        for (int i = 0; i < COUNT_OF(injections); i++)
            assert_true(fail_each_in_turn(injections[i], compute, subject) > 2);
    }
    clattn_context_release(context);
    free(subject);
}

/* A call that failed has left nothing behind that a later one could stumble over. */
static void test_a_context_goes_on_working_after_failures(void **state)
{
    (void)state;
    struct subject *subject = malloc(sizeof *subject);
    prepare(subject, CLATTN_FORWARD, 1);
    assert_int_equal(clattn_context_open(device_name(), &subject->context), CLATTN_SUCCESS);
    for (int n = 1;; n++) {
        fill_outputs(subject);
        fake_cl_reset();
        fake_cl_fail_call(n, CL_INVALID_VALUE);
        const clattn_status status = compute(subject);
        if (!fake_cl_failed())
            break;
        assert_int_not_equal(status, CLATTN_SUCCESS);
    }
    fake_cl_reset();
    assert_int_equal(clattn_context_programs_built(subject->context), 1);
    const float *o = subject->arrays[CLATTN_O];
    for (int n = 0; n < 3 * 16; n++)
        assert_true(o[n] == 0);
    clattn_context_release(subject->context);
    free(subject);
}

static void test_lack_of_memory_is_called_by_its_name(void **state)
{
    (void)state;
    struct subject *subject = malloc(sizeof *subject);
    prepare(subject, CLATTN_FORWARD, 1);
    for (int n = 1;; n++) {
        fake_cl_reset();
        fake_cl_fail_allocation(n);
        const clattn_status status = open_and_compute(subject);
        if (!fake_cl_failed())
            break;
        assert_int_equal(status, CLATTN_OUT_OF_MEMORY);
    }
    fake_cl_reset();
    free(subject);
}

/* O is larger than the device allocates at once; nothing is made, and nobody reads the array. */
static void test_an_array_beyond_the_largest_allocation_is_named(void **state)
{
    (void)state;
    clattn_context *context;
    clattn_device_info info;
    assert_int_equal(clattn_context_open(device_name(), &context), CLATTN_SUCCESS);
    assert_int_equal(clattn_context_describe(context, &info), CLATTN_SUCCESS);
    const int64_t rows = (int64_t)(info.max_allocation / (1024 * sizeof(float))) + 1;
    clattn_problem problem;
    clattn_problem_init(&problem, CLATTN_FORWARD, &(clattn_sizes){1, 1, 1, rows, 1, 1, 1024});
    problem.strides[CLATTN_Q] = (clattn_strides){0};
    problem.present[CLATTN_LSE] = false;
    problem.engine = "reference";
    float row[1024] = {0};
    void *const arrays[CLATTN_TENSOR_COUNT] = {
        [CLATTN_Q] = row, [CLATTN_K] = row, [CLATTN_V] = row, [CLATTN_O] = row};
    clattn_plan *plan; /* the program is built before anything is counted */
    assert_int_equal(clattn_plan_create(context, CLATTN_FORWARD, &problem, &plan), CLATTN_SUCCESS);
    clattn_plan_release(plan);
    fake_cl_reset();
    assert_int_equal(clattn_compute(context, CLATTN_FORWARD, &problem, arrays), CLATTN_OUT_OF_MEMORY);
    char bytes[32], most[32];
    snprintf(bytes, sizeof bytes, "o: %zu bytes", clattn_problem_bytes(&problem, CLATTN_O));
    snprintf(most, sizeof most, "%llu", (unsigned long long)info.max_allocation);
    if (!strstr(clattn_message(), bytes) || !strstr(clattn_message(), most))
        fail_msg("'%s' names not both '%s' and '%s'", clattn_message(), bytes, most);
    assert_in_range(fake_cl_buffers().count, 0, 1); /* the plan's own */
    clattn_context_release(context);
}

static void test_an_allocation_that_fails_names_its_array(void **state)
{
    (void)state;
    struct subject *subject = malloc(sizeof *subject);
    prepare(subject, CLATTN_FORWARD, 1);
    assert_int_equal(clattn_context_open(device_name(), &subject->context), CLATTN_SUCCESS);
    assert_int_equal(compute(subject), CLATTN_SUCCESS);
    int named = 0;
    for (int n = 1;; n++) {
        fake_cl_reset();
        fake_cl_fail_call(n, CL_MEM_OBJECT_ALLOCATION_FAILURE);
        const clattn_status status = compute(subject);
        if (!fake_cl_failed())
            break;
        assert_int_not_equal(status, CLATTN_SUCCESS);
        named += strstr(clattn_message(), "q: clCreateBuffer of 192 bytes on ") != NULL;
        named += strstr(clattn_message(), "lse: clCreateBuffer of 12 bytes on ") != NULL;
    }
    fake_cl_reset();
    assert_int_equal(named, 2);
    clattn_context_release(subject->context);
    free(subject);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_call_of_computing_may_fail),
        cmocka_unit_test(test_each_call_of_opening_and_computing_may_fail),
        cmocka_unit_test(test_a_context_goes_on_working_after_failures),
        cmocka_unit_test(test_lack_of_memory_is_called_by_its_name),
        cmocka_unit_test(test_an_array_beyond_the_largest_allocation_is_named),
        cmocka_unit_test(test_an_allocation_that_fails_names_its_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
