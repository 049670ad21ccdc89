/* Defends the explicit interface: what enqueueing refuses, offsets, queues, events, threads. */
#include "clattn/clattn.h"

#include <math.h>
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

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof *(array)))
#define UNTOUCHED 0xa5

/* ---- a call in the making ---- */

/* Everything that an enqueue takes, with arrays in host memory to compare with. */
struct call {
    clattn_problem problem;
    clattn_operation operation;
    clattn_plan *plan;
    cl_command_queue queue;
    clattn_buffer buffers[CLATTN_TENSOR_COUNT];
    cl_mem workspace;
    cl_uint wait_count;
    const cl_event *wait_list;
    unsigned char *arrays[CLATTN_TENSOR_COUNT]; /* inputs, and outputs as clattn_compute gives them */
};

static bool is_output(const struct call *call, int t)
{
    return clattn_problem_is_output(&call->problem, call->operation, (clattn_tensor)t);
}

static size_t bytes_of(const struct call *call, int t)
{
    return call->problem.present[t] ? clattn_problem_bytes(&call->problem, (clattn_tensor)t) : 0;
}

/* Numbers between -1 and 1 that differ from seed to seed. */
static void fill(float *values, size_t count, unsigned seed)
{
    for (size_t n = 0; n < count; n++) {
        seed = seed * 1664525u + 1013904223u;
        values[n] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
}

static cl_command_queue make_queue(cl_command_queue_properties properties)
{
    return clCreateCommandQueue(clattn_context_cl(suite_context), clattn_context_device(suite_context),
                                properties, NULL);
}

static cl_mem make_buffer(size_t bytes)
{
    return clCreateBuffer(clattn_context_cl(suite_context), CL_MEM_READ_WRITE, bytes, NULL, NULL);
}

/* Writes inputs, and marks outputs, at their place. */
static void upload(const struct call *call, int t)
{
    const size_t bytes = bytes_of(call, t);
    unsigned char *marks = malloc(bytes + 1);
    memset(marks, UNTOUCHED, bytes);
    assert_int_equal(clEnqueueWriteBuffer(call->queue, call->buffers[t].memory, CL_TRUE,
                                          call->buffers[t].offset, bytes,
                                          is_output(call, t) ? marks : call->arrays[t], 0, NULL, NULL),
                     CL_SUCCESS);
    free(marks);
}

static void make_arrays(struct call *call, unsigned seed)
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        if (!call->problem.present[t])
            continue;
        call->arrays[t] = calloc(1, bytes_of(call, t) + 1);
        if (!is_output(call, t))
            fill((float *)(void *)call->arrays[t], bytes_of(call, t) / sizeof(float), seed + (unsigned)t);
    }
    void *arrays[CLATTN_TENSOR_COUNT];
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        arrays[t] = call->arrays[t];
    assert_int_equal(clattn_compute(suite_context, call->operation, &call->problem, arrays), CLATTN_SUCCESS);
}

/* Plan, queue and arrays; buffers are the test's own. */
static void begin(struct call *call, const clattn_problem *problem, clattn_operation operation, unsigned seed)
{
    *call = (struct call){.problem = *problem, .operation = operation, .queue = make_queue(0)};
    make_arrays(call, seed);
    assert_int_equal(clattn_plan_create(suite_context, operation, problem, &call->plan), CLATTN_SUCCESS);
    clattn_plan_info info;
    assert_int_equal(clattn_plan_describe(call->plan, &info), CLATTN_SUCCESS);
    call->workspace = info.workspace_bytes ? make_buffer(info.workspace_bytes) : NULL;
}

/* The same with a buffer for each tensor. */
static void begin_with_buffers(struct call *call, const clattn_problem *problem, clattn_operation operation,
                               unsigned seed)
{
    begin(call, problem, operation, seed);
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        if (bytes_of(call, t) > 0) {
            call->buffers[t].memory = make_buffer(bytes_of(call, t));
            upload(call, t);
        }
}

static void end(struct call *call)
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        if (call->buffers[t].memory)
            clReleaseMemObject(call->buffers[t].memory);
        free(call->arrays[t]);
    }
    if (call->workspace)
        clReleaseMemObject(call->workspace);
    clReleaseCommandQueue(call->queue);
    clattn_plan_release(call->plan);
}

static clattn_status enqueue(const struct call *call, cl_event *event)
{
    return clattn_enqueue(call->plan, call->queue, call->buffers, call->workspace, call->wait_count,
                          call->wait_list, event);
}

/* An output as it is in its buffer now; to be freed. Also called in threads, which may not assert. */
static unsigned char *download(const struct call *call, int t)
{
    unsigned char *bytes = calloc(1, bytes_of(call, t) + 1);
    clEnqueueReadBuffer(call->queue, call->buffers[t].memory, CL_TRUE, call->buffers[t].offset,
                        bytes_of(call, t), bytes, 0, NULL, NULL);
    return bytes;
}

static bool same_numbers(const float *ours, const float *expected, size_t count)
{
    for (size_t n = 0; n < count; n++)
        if (ours[n] != expected[n] && !(fabsf(ours[n] - expected[n]) <= 2e-6f))
            return false;
    return true;
}

/* Name of an output that is not what clattn_compute has given, or NULL. */
static const char *wrong_output(const struct call *call)
{
    const char *wrong = NULL;
    for (int t = 0; t < CLATTN_TENSOR_COUNT && !wrong; t++) {
        if (!is_output(call, t) || bytes_of(call, t) == 0)
            continue;
        unsigned char *ours = download(call, t);
        if (!same_numbers((const float *)(const void *)ours, (const float *)(const void *)call->arrays[t],
                          bytes_of(call, t) / sizeof(float)))
            wrong = clattn_tensor_name((clattn_tensor)t);
        free(ours);
    }
    return wrong;
}

static void must_hold_results(const struct call *call)
{
    if (wrong_output(call))
        fail_msg("%s differs", wrong_output(call));
}

static void must_be_untouched(const struct call *call, const char *what)
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        if (!is_output(call, t) || bytes_of(call, t) == 0)
            continue;
        unsigned char *ours = download(call, t);
        for (size_t n = 0; n < bytes_of(call, t); n++)
            if (ours[n] != UNTOUCHED)
                fail_msg("%s: '%s' is written", what, clattn_tensor_name((clattn_tensor)t));
        free(ours);
    }
}

static clattn_problem small_problem(clattn_operation operation)
{
    clattn_problem problem;
    clattn_problem_init(&problem, operation, &(clattn_sizes){2, 2, 1, 5, 37, 16, 16});
    return problem;
}

/* ---- what is refused ---- */

/* A context on the same device that is not the plan's. */
static struct {
    cl_context context;
    cl_command_queue queue;
    cl_mem memory;
    cl_event event;
} foreign;

/* Memory objects of the plan's context that are not what a tensor or the workspace needs. */
static struct {
    cl_mem image, read_only, write_only;
} unfit;

static void misalign(struct call *call) { call->buffers[CLATTN_Q].offset = 2; }
static void shift_beyond_the_end(struct call *call) { call->buffers[CLATTN_K].offset = 4; }
static void shift_an_output_beyond_the_end(struct call *call) { call->buffers[CLATTN_LSE].offset = 64; }
static void shift_until_it_wraps(struct call *call) { call->buffers[CLATTN_O].offset = SIZE_MAX - 3; }
static void swap_in_a_small_buffer(struct call *call) { call->buffers[CLATTN_V] = call->buffers[CLATTN_LSE]; }
static void leave_out_an_input(struct call *call) { call->buffers[CLATTN_V].memory = NULL; }
static void leave_out_an_output(struct call *call) { call->buffers[CLATTN_O].memory = NULL; }
static void swap_in_a_foreign_buffer(struct call *call) { call->buffers[CLATTN_Q].memory = foreign.memory; }
static void swap_in_a_foreign_output(struct call *call) { call->buffers[CLATTN_O].memory = foreign.memory; }
static void give_what_is_absent(struct call *call) { call->buffers[CLATTN_MASK] = call->buffers[CLATTN_Q]; }
static void give_what_the_operation_lacks(struct call *call)
{
    call->buffers[CLATTN_TQ] = call->buffers[CLATTN_Q];
}
static void swap_in_a_foreign_queue(struct call *call) { call->queue = foreign.queue; }
static void leave_out_the_queue(struct call *call) { call->queue = NULL; }
static void leave_out_the_plan(struct call *call) { call->plan = NULL; }
static void count_without_a_list(struct call *call) { call->wait_count = 3; }
static void list_without_a_count(struct call *call)
{
    static const cl_event none;
    call->wait_list = &none;
}
static void list_a_null_event(struct call *call)
{
    static const cl_event none;
    call->wait_list = &none;
    call->wait_count = 1;
}
static void list_a_foreign_event(struct call *call)
{
    call->wait_list = &foreign.event;
    call->wait_count = 1;
}
static void swap_in_an_image(struct call *call) { call->buffers[CLATTN_K].memory = unfit.image; }
static void swap_in_an_image_as_output(struct call *call) { call->buffers[CLATTN_O].memory = unfit.image; }
static void write_to_read_only(struct call *call) { call->buffers[CLATTN_O].memory = unfit.read_only; }
static void read_from_write_only(struct call *call) { call->buffers[CLATTN_V].memory = unfit.write_only; }
static void write_to_an_input(struct call *call) { call->buffers[CLATTN_O] = call->buffers[CLATTN_V]; }
static void write_into_an_input(struct call *call)
{
    call->buffers[CLATTN_LSE] = call->buffers[CLATTN_K];
    call->buffers[CLATTN_LSE].offset = 64;
}
static void write_two_outputs_to_one_place(struct call *call)
{
    call->buffers[CLATTN_LSE] = call->buffers[CLATTN_O];
    call->buffers[CLATTN_LSE].offset = 128;
}

static const struct {
    const char *what;
    void (*change)(struct call *call);
    const char *words[2]; /* in the message */
} refusals[] = {
    {"misaligned offset", misalign, {"q: ", "offset 2"}},
    {"offset beyond the end", shift_beyond_the_end, {"k: ", "expected at least"}},
    {"offset of an output beyond the end", shift_an_output_beyond_the_end, {"lse: ", "expected at least"}},
    {"offset that wraps around", shift_until_it_wraps, {"o: ", "18446744073709551612"}},
    {"small buffer", swap_in_a_small_buffer, {"v: ", "80 bytes"}},
    {"no input", leave_out_an_input, {"v: ", "NULL"}},
    {"no output", leave_out_an_output, {"o: ", "NULL"}},
    {"input of another context", swap_in_a_foreign_buffer, {"q: ", "context"}},
    {"output of another context", swap_in_a_foreign_output, {"o: ", "context"}},
    {"buffer of an absent option", give_what_is_absent, {"mask: ", "absent"}},
    {"buffer of another operation", give_what_the_operation_lacks, {"tq: ", "absent"}},
    {"queue of another context", swap_in_a_foreign_queue, {"queue: ", "context"}},
    {"no queue", leave_out_the_queue, {"queue: ", "NULL"}},
    {"no plan", leave_out_the_plan, {"plan: ", "NULL"}},
    {"wait count without a list", count_without_a_list, {"wait_list: ", "3"}},
    {"wait list without a count", list_without_a_count, {"wait_list: ", "0"}},
    {"wait list with a NULL", list_a_null_event, {"wait_list: entry 0", "NULL"}},
    {"event of another context", list_a_foreign_event, {"wait_list: entry 0", "context"}},
    {"image as an input", swap_in_an_image, {"k: an image", "expected a buffer"}},
    {"image as an output", swap_in_an_image_as_output, {"o: an image", "expected a buffer"}},
    {"read-only output", write_to_read_only, {"o: a CL_MEM_READ_ONLY buffer", "write"}},
    {"write-only input", read_from_write_only, {"v: a CL_MEM_WRITE_ONLY buffer", "read"}},
    {"output in the place of an input", write_to_an_input, {"o: ", " v"}},
    {"output within an input", write_into_an_input, {"lse: ", " k"}},
    {"output within another", write_two_outputs_to_one_place, {"lse: ", " o"}},
};

static cl_mem make_memory(cl_mem_flags flags)
{
    return clCreateBuffer(clattn_context_cl(suite_context), flags, 1 << 16, NULL, NULL);
}

/* NULL on a device without images. */
static cl_mem make_image(void)
{
    const cl_image_format format = {CL_RGBA, CL_FLOAT};
    const cl_image_desc description = {
        .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 128, .image_height = 128};
    return clCreateImage(clattn_context_cl(suite_context), CL_MEM_READ_WRITE, &format, &description, NULL,
                         NULL);
}

static int make_unfit(void)
{
    unfit.image = make_image();
    unfit.read_only = make_memory(CL_MEM_READ_ONLY);
    unfit.write_only = make_memory(CL_MEM_WRITE_ONLY);
    return unfit.read_only && unfit.write_only ? 0 : -1;
}

static void release_unfit(void)
{
    if (unfit.image)
        clReleaseMemObject(unfit.image);
    clReleaseMemObject(unfit.read_only);
    clReleaseMemObject(unfit.write_only);
}

static int make_foreign(void **state)
{
    (void)state;
    const cl_device_id device = clattn_context_device(suite_context);
    foreign.context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    foreign.queue = clCreateCommandQueue(foreign.context, device, 0, NULL);
    foreign.memory = clCreateBuffer(foreign.context, CL_MEM_READ_WRITE, 1 << 16, NULL, NULL);
    foreign.event = clCreateUserEvent(foreign.context, NULL);
    return foreign.memory && foreign.event ? make_unfit() : -1;
}

static int release_foreign(void **state)
{
    (void)state;
    release_unfit();
    clReleaseEvent(foreign.event);
    clReleaseMemObject(foreign.memory);
    clReleaseCommandQueue(foreign.queue);
    clReleaseContext(foreign.context);
    return 0;
}

static void must_refuse(const struct call *right, int n)
{
    struct call wrong = *right;
    refusals[n].change(&wrong);
    if (!unfit.image && strstr(refusals[n].what, "image"))
        return;
    cl_event event = NULL;
    const clattn_status status = enqueue(&wrong, &event);
    clFinish(right->queue);
    if (status != CLATTN_INVALID_ARGUMENT)
        fail_msg("%s: %s", refusals[n].what, clattn_status_name(status));
    if (!strstr(clattn_message(), refusals[n].words[0]) || !strstr(clattn_message(), refusals[n].words[1]))
        fail_msg("%s: '%s' names not both '%s' and '%s'", refusals[n].what, clattn_message(),
                 refusals[n].words[0], refusals[n].words[1]);
    assert_null(event);
    must_be_untouched(right, refusals[n].what);
}

static void test_wrong_arguments_are_refused_and_nothing_is_written(void **state)
{
    (void)state;
    struct call call;
    const clattn_problem problem = small_problem(CLATTN_FORWARD);
    begin_with_buffers(&call, &problem, CLATTN_FORWARD, 1);
    for (int n = 0; n < COUNT_OF(refusals); n++)
        must_refuse(&call, n);
    assert_int_equal(clattn_enqueue(call.plan, call.queue, NULL, call.workspace, 0, NULL, NULL),
                     CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_message(), "buffers: NULL"));
    /* and the same call, right, is done */
    assert_int_equal(enqueue(&call, NULL), CLATTN_SUCCESS);
    must_hold_results(&call);
    end(&call);
}

static void test_workspace_is_checked_where_there_is_any(void **state)
{
    (void)state;
    const clattn_problem problem = small_problem(CLATTN_VJP);
    clattn_plan *plan;
    if (clattn_plan_create(suite_context, CLATTN_VJP, &problem, &plan) == CLATTN_UNSUPPORTED)
        skip();
    clattn_plan_release(plan);
    struct call call;
    begin_with_buffers(&call, &problem, CLATTN_VJP, 2);
    const cl_mem right = call.workspace;
    if (right) {
        const cl_mem wrong[] = {
            NULL,       call.buffers[CLATTN_LSE].memory, foreign.memory, unfit.read_only, unfit.write_only,
            unfit.image};
        for (int i = 0; i < COUNT_OF(wrong); i++) {
            if (i > 0 && !wrong[i])
                continue;
            call.workspace = wrong[i];
            assert_int_equal(enqueue(&call, NULL), CLATTN_INVALID_ARGUMENT);
            assert_non_null(strstr(clattn_message(), "workspace"));
        }
        call.workspace = right;
        must_be_untouched(&call, "wrong workspace");
    }
    assert_int_equal(enqueue(&call, NULL), CLATTN_SUCCESS);
    must_hold_results(&call);
    end(&call);
}

/* What a forward call has left is read, and may lie where nothing can be written. */
static void test_given_results_of_a_forward_call_are_inputs(void **state)
{
    (void)state;
    clattn_problem problem = small_problem(CLATTN_VJP);
    problem.forward_given = true;
    struct call call;
    begin_with_buffers(&call, &problem, CLATTN_VJP, 5);
    const cl_mem lse = call.buffers[CLATTN_LSE].memory;
    call.buffers[CLATTN_LSE].memory = unfit.write_only;
    assert_int_equal(enqueue(&call, NULL), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_message(), "lse: a CL_MEM_WRITE_ONLY buffer"));
    must_be_untouched(&call, "write-only lse");
    cl_mem copy = clCreateBuffer(clattn_context_cl(suite_context), CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                                 bytes_of(&call, CLATTN_LSE), call.arrays[CLATTN_LSE], NULL);
    call.buffers[CLATTN_LSE].memory = copy;
    assert_int_equal(enqueue(&call, NULL), CLATTN_SUCCESS);
    must_hold_results(&call);
    call.buffers[CLATTN_LSE].memory = lse;
    clReleaseMemObject(copy);
    end(&call);
}

/* Backward passes read what the forward one has written. */
static void test_results_that_are_read_again_must_be_readable(void **state)
{
    (void)state;
    const clattn_problem problem = small_problem(CLATTN_VJP);
    struct call call;
    begin_with_buffers(&call, &problem, CLATTN_VJP, 6);
    const cl_mem right[] = {call.buffers[CLATTN_LSE].memory, call.buffers[CLATTN_DQ].memory};
    call.buffers[CLATTN_LSE].memory = unfit.write_only;
    assert_int_equal(enqueue(&call, NULL), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_message(), "lse: a CL_MEM_WRITE_ONLY buffer"));
    call.buffers[CLATTN_LSE].memory = right[0];
    must_be_untouched(&call, "write-only lse");
    call.buffers[CLATTN_DQ].memory = unfit.write_only;
    assert_int_equal(enqueue(&call, NULL), CLATTN_SUCCESS);
    must_hold_results(&call);
    call.buffers[CLATTN_DQ].memory = right[1];
    end(&call);
}

/* [B,S,2,H,D]: rows of one lie in the gaps between those of the other. */
static void test_results_may_lie_in_each_others_gaps(void **state)
{
    (void)state;
    enum {
        BATCH = 2,
        HEADS = 2,
        ROWS = 37,
        DIM = 16,
        ROW = 2 * HEADS * DIM
    };
    clattn_problem problem;
    clattn_problem_init(&problem, CLATTN_VJP, &(clattn_sizes){BATCH, HEADS, HEADS, ROWS, ROWS, DIM, DIM});
    struct call call;
    begin_with_buffers(&call, &problem, CLATTN_VJP, 7);
    clattn_plan_release(call.plan);
    for (int t = CLATTN_DK; t <= CLATTN_DV; t++)
        problem.strides[t] = (clattn_strides){.batch = ROWS * ROW, .head = DIM, .row = ROW};
    assert_int_equal(clattn_plan_create(suite_context, CLATTN_VJP, &problem, &call.plan), CLATTN_SUCCESS);
    const clattn_buffer apart[] = {call.buffers[CLATTN_DK], call.buffers[CLATTN_DV]};
    cl_mem memory = make_buffer(BATCH * ROWS * ROW * sizeof(float));
    call.buffers[CLATTN_DK] = (clattn_buffer){memory, 0};
    call.buffers[CLATTN_DV] = (clattn_buffer){memory, HEADS * DIM * sizeof(float)};
    assert_int_equal(enqueue(&call, NULL), CLATTN_SUCCESS);
    call.buffers[CLATTN_DV].offset = 0;
    assert_int_equal(enqueue(&call, NULL), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_message(), "dv: "));
    clFinish(call.queue);
    call.buffers[CLATTN_DK] = apart[0];
    call.buffers[CLATTN_DV] = apart[1];
    clReleaseMemObject(memory);
    end(&call);
}

/* ---- arrays in host memory ---- */

static void test_wrong_arrays_are_refused_and_nothing_is_written(void **state)
{
    (void)state;
    clattn_problem problem = small_problem(CLATTN_FORWARD);
    problem.present[CLATTN_KV_LENGTHS] = true;
    float *inputs = calloc(2 * 37 * 16, sizeof *inputs);
    float o[2 * 2 * 5 * 16], lse[2 * 2 * 5];
    int32_t lengths[2] = {3, 37};
    void *const right[CLATTN_TENSOR_COUNT] = {
        [CLATTN_Q] = inputs,           [CLATTN_K] = inputs, [CLATTN_V] = inputs,
        [CLATTN_KV_LENGTHS] = lengths, [CLATTN_O] = o,      [CLATTN_LSE] = lse};
    const struct {
        clattn_tensor tensor;
        void *array;
        int32_t length;
        const char *words[2];
    } wrong[] = {
        {CLATTN_K, NULL, 3, {"k: ", "NULL"}},
        {CLATTN_O, NULL, 3, {"o: ", "NULL"}},
        {CLATTN_MASK, inputs, 3, {"mask", "absent"}},
        {CLATTN_TQ, inputs, 3, {"tq", "absent"}},
        {CLATTN_Q, inputs, -1, {"kv_lengths: entry 1", "-1"}},
        {CLATTN_Q, inputs, 38, {"kv_lengths: entry 1", "38"}},
    };
    memset(o, UNTOUCHED, sizeof o);
    memset(lse, UNTOUCHED, sizeof lse);
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        void *arrays[CLATTN_TENSOR_COUNT];
        memcpy(arrays, right, sizeof arrays);
        arrays[wrong[i].tensor] = wrong[i].array;
        lengths[1] = wrong[i].length;
        assert_int_equal(clattn_compute(suite_context, CLATTN_FORWARD, &problem, arrays),
                         CLATTN_INVALID_ARGUMENT);
        if (!strstr(clattn_message(), wrong[i].words[0]) || !strstr(clattn_message(), wrong[i].words[1]))
            fail_msg("'%s' names not both '%s' and '%s'", clattn_message(), wrong[i].words[0],
                     wrong[i].words[1]);
    }
    lengths[1] = 37;
    assert_int_equal(clattn_compute(NULL, CLATTN_FORWARD, &problem, right), CLATTN_INVALID_ARGUMENT);
    assert_int_equal(clattn_compute(suite_context, CLATTN_FORWARD, NULL, right), CLATTN_INVALID_ARGUMENT);
    assert_int_equal(clattn_compute(suite_context, CLATTN_FORWARD, &problem, NULL), CLATTN_INVALID_ARGUMENT);
    unsigned char untouched[sizeof o];
    memset(untouched, UNTOUCHED, sizeof untouched);
    assert_memory_equal(o, untouched, sizeof o);
    assert_memory_equal(lse, untouched, sizeof lse);
    free(inputs);
}

/* ---- offsets and strides ---- */

/* Q, K, V packed as [B,S,3,H,D] in the middle of one buffer that also takes the results. */
enum {
    PACKED_BATCH = 2,
    PACKED_ROWS = 37,
    PACKED_HEADS = 2,
    PACKED_DIM = 16
};
enum {
    PACKED_ROW = 3 * PACKED_HEADS * PACKED_DIM,
    PACKED_GUARD = 52 /* bytes, no power of two */
};

static size_t packed_index(int third, int b, int row, int h)
{
    return (((size_t)b * PACKED_ROWS + (size_t)row) * 3 + (size_t)third) * PACKED_HEADS * PACKED_DIM +
           (size_t)h * PACKED_DIM;
}

/* Rows of the packed array from the contiguous arrays of a call. */
static float *pack(const struct call *call)
{
    float *packed = calloc((size_t)PACKED_BATCH * PACKED_ROWS * PACKED_ROW, sizeof *packed);
    for (int third = 0; third < 3; third++) {
        const float *from = (const float *)(const void *)call->arrays[CLATTN_Q + third];
        for (int b = 0; b < PACKED_BATCH; b++)
            for (int h = 0; h < PACKED_HEADS; h++)
                for (int row = 0; row < PACKED_ROWS; row++, from += PACKED_DIM)
                    memcpy(packed + packed_index(third, b, row, h), from, PACKED_DIM * sizeof *from);
    }
    return packed;
}

/* A call of contiguous arrays becomes one on packed ones at offsets of `memory`; returns the bytes used. */
static size_t place_packed(struct call *call, cl_mem memory)
{
    size_t at = PACKED_GUARD;
    for (int third = 0; third < 3; third++) {
        call->problem.strides[CLATTN_Q + third] =
            (clattn_strides){.batch = PACKED_ROWS * PACKED_ROW, .head = PACKED_DIM, .row = PACKED_ROW};
        call->buffers[CLATTN_Q + third] =
            (clattn_buffer){memory, at + (size_t)(third * PACKED_HEADS * PACKED_DIM) * sizeof(float)};
    }
    at += (size_t)PACKED_BATCH * PACKED_ROWS * PACKED_ROW * sizeof(float) + PACKED_GUARD;
    call->buffers[CLATTN_O] = (clattn_buffer){memory, at};
    at += bytes_of(call, CLATTN_O) + PACKED_GUARD;
    call->buffers[CLATTN_LSE] = (clattn_buffer){memory, at};
    return at + bytes_of(call, CLATTN_LSE) + PACKED_GUARD;
}

static void must_change_only(const struct call *call, const unsigned char *before, const unsigned char *after,
                             size_t bytes)
{
    for (size_t n = 0; n < bytes; n++) {
        bool result = false;
        for (int t = CLATTN_O; t <= CLATTN_LSE; t++)
            result =
                result || (n >= call->buffers[t].offset && n < call->buffers[t].offset + bytes_of(call, t));
        if (!result && before[n] != after[n])
            fail_msg("byte %zu outside the results is written", n);
    }
}

static void test_one_buffer_holds_packed_inputs_and_results_at_offsets(void **state)
{
    (void)state;
    clattn_problem problem;
    clattn_problem_init(&problem, CLATTN_FORWARD,
                        &(clattn_sizes){PACKED_BATCH, PACKED_HEADS, PACKED_HEADS, PACKED_ROWS, PACKED_ROWS,
                                        PACKED_DIM, PACKED_DIM});
    struct call call;
    begin(&call, &problem, CLATTN_FORWARD, 3);
    cl_mem memory = make_buffer(1 << 17);
    const size_t bytes = place_packed(&call, memory);
    assert_true(bytes <= 1 << 17);
    clattn_plan_release(call.plan);
    assert_int_equal(clattn_plan_create(suite_context, CLATTN_FORWARD, &call.problem, &call.plan),
                     CLATTN_SUCCESS);

    unsigned char *before = malloc(bytes), *after = malloc(bytes);
    float *packed = pack(&call);
    memset(before, UNTOUCHED, bytes);
    memcpy(before + PACKED_GUARD, packed, (size_t)PACKED_BATCH * PACKED_ROWS * PACKED_ROW * sizeof *packed);
    clEnqueueWriteBuffer(call.queue, memory, CL_TRUE, 0, bytes, before, 0, NULL, NULL);
    assert_int_equal(enqueue(&call, NULL), CLATTN_SUCCESS);
    must_hold_results(&call);
    clEnqueueReadBuffer(call.queue, memory, CL_TRUE, 0, bytes, after, 0, NULL, NULL);
    must_change_only(&call, before, after, bytes);

    free(packed);
    free(before);
    free(after);
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        call.buffers[t].memory = NULL;
    clReleaseMemObject(memory);
    end(&call);
}

/* ---- queues and events ---- */

/* Out of order: the write of Q waits for the user, the call for the write, the read for the call. */
static void must_follow_its_events(struct call *call)
{
    cl_event user = clCreateUserEvent(clattn_context_cl(suite_context), NULL), written, done, read;
    const size_t q_bytes = bytes_of(call, CLATTN_Q), o_bytes = bytes_of(call, CLATTN_O);
    float *zeros = calloc(1, q_bytes), *o = calloc(1, o_bytes);
    clEnqueueWriteBuffer(call->queue, call->buffers[CLATTN_Q].memory, CL_TRUE, 0, q_bytes, zeros, 0, NULL,
                         NULL);
    clEnqueueWriteBuffer(call->queue, call->buffers[CLATTN_Q].memory, CL_FALSE, 0, q_bytes,
                         call->arrays[CLATTN_Q], 1, &user, &written);
    const cl_event before[] = {written, user};
    call->wait_count = 2;
    call->wait_list = before;
    assert_int_equal(enqueue(call, &done), CLATTN_SUCCESS);
    clEnqueueReadBuffer(call->queue, call->buffers[CLATTN_O].memory, CL_FALSE, 0, o_bytes, o, 1, &done,
                        &read);
    clFlush(call->queue);

    cl_int status;
    clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
    assert_true(status > CL_COMPLETE);
    clSetUserEventStatus(user, CL_COMPLETE);
    assert_int_equal(clWaitForEvents(1, &read), CL_SUCCESS);
    assert_true(same_numbers(o, (const float *)(const void *)call->arrays[CLATTN_O], o_bytes / sizeof *o));
    must_hold_results(call);

    call->wait_count = 0;
    call->wait_list = NULL;
    const cl_event events[] = {user, written, done, read};
    for (int i = 0; i < COUNT_OF(events); i++)
        clReleaseEvent(events[i]);
    free(zeros);
    free(o);
}

static void run_out_of_order(cl_command_queue queue, clattn_operation operation, int64_t tangents,
                             const char *engine)
{
    clattn_problem problem = small_problem(operation);
    problem.engine = engine;
    problem.present[CLATTN_TQ] = operation == CLATTN_JVP || operation == CLATTN_HVP;
    problem.tangents = tangents;
    clattn_problem_set_contiguous(&problem, false);
    if (clattn_problem_check(&problem, operation) == CLATTN_UNSUPPORTED)
        return;
    struct call call;
    begin_with_buffers(&call, &problem, operation, 4);
    const cl_command_queue in_order = call.queue;
    call.queue = queue;
    must_follow_its_events(&call);
    call.queue = in_order;
    end(&call);
}

/* Nine tangents and gradients take several launches, of which each must wait for the one before. */
static void test_out_of_order_queues_follow_events(void **state)
{
    (void)state;
    cl_command_queue queue = make_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    if (!queue)
        skip();
    run_out_of_order(queue, CLATTN_FORWARD, 1, NULL);
    run_out_of_order(queue, CLATTN_JVP, 9, "reference");
    run_out_of_order(queue, CLATTN_VJP, 1, NULL);
    run_out_of_order(queue, CLATTN_HVP, 1, "reference");
    clReleaseCommandQueue(queue);
}

/* A thread's own call of a plan that others use; the call again if it goes wrong. */
static void *enqueue_again_and_again(void *argument)
{
    struct call *call = argument;
    for (int n = 0; n < 2000; n++)
        if (enqueue(call, NULL) != CLATTN_SUCCESS || wrong_output(call))
            return argument;
    return NULL;
}

static void test_threads_share_a_plan(void **state)
{
    (void)state;
    struct call calls[2];
    pthread_t threads[2];
    const clattn_problem problem = small_problem(CLATTN_FORWARD);
    for (int i = 0; i < 2; i++)
        begin_with_buffers(&calls[i], &problem, CLATTN_FORWARD, 10 + 10 * (unsigned)i);
    clattn_plan *const second = calls[1].plan;
    calls[1].plan = calls[0].plan;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, enqueue_again_and_again, &calls[i]), 0);
    for (int i = 0; i < 2; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
        must_hold_results(&calls[i]);
    }
    calls[1].plan = second;
    for (int i = 0; i < 2; i++)
        end(&calls[i]);
}

/* ---- nothing to do ---- */

static void must_complete(const struct call *call)
{
    cl_event event = NULL;
    assert_int_equal(enqueue(call, &event), CLATTN_SUCCESS);
    assert_non_null(event);
    assert_int_equal(clWaitForEvents(1, &event), CL_SUCCESS);
    clReleaseEvent(event);
    assert_int_equal(enqueue(call, NULL), CLATTN_SUCCESS);
    must_hold_results(call);
}

static void test_empty_problems_complete_and_need_no_buffers(void **state)
{
    (void)state;
    static const clattn_sizes empty[] = {
        {0, 2, 1, 5, 37, 16, 16}, {2, 0, 1, 5, 37, 16, 16}, {2, 0, 0, 5, 37, 16, 16},
        {2, 2, 1, 0, 37, 16, 16}, {2, 2, 1, 0, 0, 16, 16},  {2, 2, 1, 5, 0, 16, 16},
    };
    for (int i = 0; i < COUNT_OF(empty); i++) {
        clattn_problem problem;
        clattn_problem_init(&problem, CLATTN_FORWARD, &empty[i]);
        struct call call = {.problem = problem, .operation = CLATTN_FORWARD, .queue = make_queue(0)};
        assert_int_equal(clattn_plan_create(suite_context, CLATTN_FORWARD, &problem, &call.plan),
                         CLATTN_SUCCESS);
        for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
            if (bytes_of(&call, t) > 0) {
                call.arrays[t] = calloc(1, bytes_of(&call, t));
                call.buffers[t].memory = make_buffer(bytes_of(&call, t));
                upload(&call, t);
            }
        /* queries that have no key: O = 0, L = -inf */
        float *lse = (float *)(void *)call.arrays[CLATTN_LSE];
        for (size_t n = 0; n < bytes_of(&call, CLATTN_LSE) / sizeof *lse; n++)
            lse[n] = -INFINITY;
        must_complete(&call);
        end(&call);
    }
}

/* Also what there is not to do is done in its turn. */
static void test_empty_problems_wait_for_their_events(void **state)
{
    (void)state;
    clattn_problem problem;
    clattn_problem_init(&problem, CLATTN_FORWARD, &(clattn_sizes){2, 2, 1, 0, 37, 16, 16});
    struct call call = {.problem = problem, .operation = CLATTN_FORWARD, .queue = make_queue(0)};
    assert_int_equal(clattn_plan_create(suite_context, CLATTN_FORWARD, &problem, &call.plan), CLATTN_SUCCESS);
    for (int t = CLATTN_K; t <= CLATTN_V; t++)
        call.buffers[t].memory = make_buffer(bytes_of(&call, t));
    cl_event user = clCreateUserEvent(clattn_context_cl(suite_context), NULL), done;
    call.wait_count = 1;
    call.wait_list = &user;
    assert_int_equal(enqueue(&call, &done), CLATTN_SUCCESS);
    clFlush(call.queue);
    cl_int status;
    clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
    assert_true(status > CL_COMPLETE);
    clSetUserEventStatus(user, CL_COMPLETE);
    assert_int_equal(clWaitForEvents(1, &done), CL_SUCCESS);
    clReleaseEvent(user);
    clReleaseEvent(done);
    end(&call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_wrong_arguments_are_refused_and_nothing_is_written, make_foreign,
                                        release_foreign),
        cmocka_unit_test_setup_teardown(test_workspace_is_checked_where_there_is_any, make_foreign,
                                        release_foreign),
        cmocka_unit_test_setup_teardown(test_given_results_of_a_forward_call_are_inputs, make_foreign,
                                        release_foreign),
        cmocka_unit_test_setup_teardown(test_results_that_are_read_again_must_be_readable, make_foreign,
                                        release_foreign),
        cmocka_unit_test(test_results_may_lie_in_each_others_gaps),
        cmocka_unit_test(test_wrong_arrays_are_refused_and_nothing_is_written),
        cmocka_unit_test(test_one_buffer_holds_packed_inputs_and_results_at_offsets),
        cmocka_unit_test(test_out_of_order_queues_follow_events),
        cmocka_unit_test(test_threads_share_a_plan),
        cmocka_unit_test(test_empty_problems_complete_and_need_no_buffers),
        cmocka_unit_test(test_empty_problems_wait_for_their_events),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
