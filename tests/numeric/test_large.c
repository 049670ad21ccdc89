/* Strides that span more than 2 and 4 GiB of one buffer: offsets are 64 bits wide everywhere. */
#include <math.h>
#include <stdio.h>

#include "suite.h"

enum {
    ROWS = 5,
    HEAD_DIM = 16
};
/* Floats between rows that put the last row `bytes` behind the first. */
static int64_t stride_for(uint64_t bytes) { return (int64_t)(bytes / sizeof(float) / (ROWS - 1)) + 160; }

static size_t buffer_bytes(int64_t row_stride)
{
    return (size_t)(row_stride * (ROWS - 1) + 4096) * sizeof(float);
}

/* Tensors share the buffer: each lies behind the one before it, in every row. */
static const clattn_tensor tensors[] = {CLATTN_Q,  CLATTN_K,  CLATTN_V,  CLATTN_TQ, CLATTN_DO, CLATTN_O,
                                        CLATTN_TO, CLATTN_DQ, CLATTN_DK, CLATTN_DV, CLATTN_TDQ};
#define TENSORS ((int)(sizeof tensors / sizeof *tensors))

static clattn_problem problem_of(const char *engine)
{
    clattn_problem p;
    clattn_problem_init(&p, CLATTN_HVP, &(clattn_sizes){1, 1, 1, ROWS, ROWS, HEAD_DIM, HEAD_DIM});
    p.engine = engine;
    for (int t = CLATTN_O; t < CLATTN_TENSOR_COUNT; t++)
        p.present[t] = false;
    for (int i = 0; i < TENSORS; i++)
        p.present[tensors[i]] = true;
    return p;
}

static float value_at(int tensor, int row, int d)
{
    return (float)sin(1.3 * tensor + 0.7 * row * row + 0.31 * d * (row + 1));
}

static size_t bytes_before(int index, int row, int64_t row_stride)
{
    return ((size_t)index * 2 * HEAD_DIM + (size_t)row * (size_t)row_stride) * sizeof(float);
}

/* One buffer with rows far apart, and the queue that fills and reads it. */
struct field {
    cl_command_queue queue;
    cl_mem memory;
    int64_t row_stride;
};

static void move_rows(const struct field *f, int index, float *rows, bool to_device)
{
    const size_t bytes = HEAD_DIM * sizeof(float);
    for (int row = 0; row < ROWS; row++) {
        float *host = rows + row * HEAD_DIM;
        const size_t at = bytes_before(index, row, f->row_stride);
        const cl_int error =
            to_device ? clEnqueueWriteBuffer(f->queue, f->memory, CL_TRUE, at, bytes, host, 0, NULL, NULL)
                      : clEnqueueReadBuffer(f->queue, f->memory, CL_TRUE, at, bytes, host, 0, NULL, NULL);
        assert_int_equal(error, CL_SUCCESS);
    }
}

static void compute_apart(const struct field *f, const char *engine, float rows[TENSORS][ROWS * HEAD_DIM])
{
    const int64_t whole = f->row_stride * ROWS;
    clattn_problem p = problem_of(engine);
    clattn_buffer buffers[CLATTN_TENSOR_COUNT] = {{NULL, 0}};
    for (int i = 0; i < TENSORS; i++) {
        p.strides[tensors[i]] = (clattn_strides){whole, whole, whole, f->row_stride, 1};
        buffers[tensors[i]] = (clattn_buffer){f->memory, bytes_before(i, 0, f->row_stride)};
        move_rows(f, i, rows[i], true);
    }
    clattn_plan *plan;
    clattn_plan_info info;
    cl_int error;
    if (clattn_plan_create(suite_context, CLATTN_HVP, &p, &plan) != CLATTN_SUCCESS)
        fail_msg("%s", clattn_message());
    clattn_plan_describe(plan, &info);
    cl_mem workspace = clCreateBuffer(clattn_context_cl(suite_context), CL_MEM_READ_WRITE,
                                      info.workspace_bytes, NULL, &error);
    assert_int_equal(error, CL_SUCCESS);
    if (clattn_enqueue(plan, f->queue, buffers, workspace, 0, NULL, NULL) != CLATTN_SUCCESS)
        fail_msg("%s", clattn_message());
    assert_int_equal(clFinish(f->queue), CL_SUCCESS);
    for (int i = 0; i < TENSORS; i++)
        move_rows(f, i, rows[i], false);
    clReleaseMemObject(workspace);
    clattn_plan_release(plan);
}

static void compute_packed(const char *engine, float rows[TENSORS][ROWS * HEAD_DIM])
{
    const clattn_problem p = problem_of(engine);
    void *arrays[CLATTN_TENSOR_COUNT] = {NULL};
    for (int i = 0; i < TENSORS; i++)
        arrays[tensors[i]] = rows[i];
    if (clattn_compute(suite_context, CLATTN_HVP, &p, arrays) != CLATTN_SUCCESS)
        fail_msg("%s", clattn_message());
}

static void fill(float rows[TENSORS][ROWS * HEAD_DIM])
{
    for (int i = 0; i < TENSORS; i++)
        for (int n = 0; n < ROWS * HEAD_DIM; n++)
            rows[i][n] = value_at(i, n / HEAD_DIM, n % HEAD_DIM);
}

/* Skips with a message where the device has no room for it. */
static void rows_apart(uint64_t bytes)
{
    static float apart[TENSORS][ROWS * HEAD_DIM], packed[TENSORS][ROWS * HEAD_DIM];
    struct field f = {NULL, NULL, stride_for(bytes)};
    const size_t size = buffer_bytes(f.row_stride);
    cl_int error;
    if (size <= suite_device().max_allocation)
        f.memory = clCreateBuffer(clattn_context_cl(suite_context), CL_MEM_READ_WRITE, size, NULL, &error);
    if (!f.memory) {
        print_message("skipped: the device cannot allocate %zu bytes at once\n", size);
        skip();
    }
    f.queue = clCreateCommandQueue(clattn_context_cl(suite_context), clattn_context_device(suite_context), 0,
                                   &error);
    assert_int_equal(error, CL_SUCCESS);
    FOR_EACH_ENGINE(engine, CLATTN_F32)
    {
        fill(apart);
        fill(packed);
        compute_apart(&f, engine, apart);
        compute_packed(engine, packed);
        assert_memory_equal(apart, packed, sizeof apart);
    }
    clReleaseCommandQueue(f.queue);
    clReleaseMemObject(f.memory);
}

static void test_rows_more_than_2_gib_apart(void **state)
{
    (void)state;
    rows_apart(UINT64_C(3) << 30);
}

static void test_rows_more_than_4_gib_apart(void **state)
{
    (void)state;
    rows_apart(UINT64_C(1) << 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_more_than_2_gib_apart),
        cmocka_unit_test(test_rows_more_than_4_gib_apart),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
