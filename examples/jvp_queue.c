/*
 * The JVP inside a program that owns its OpenCL: its context, its queue, one
 * buffer for everything, a wait list and an event. Q, K and V lie packed, as
 * one projection [B,S,3,H,D] writes them. The tangent is compared with central
 * differences of forward calls on the same queue.
 *
 *     buffer:  | header | QKV | tangent of QKV | O | O' | L | L' |
 */
#include <clattn/clattn.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    B = 2,
    S = 70, /* queries and keys */
    H = 3,
    D = 32
};

#define HEADER_BYTES ((size_t)256) /* what the caller keeps in front */
#define PACKED ((size_t)B * S * 3 * H * D)
#define OUTPUT ((size_t)B * S * H * D)
#define ROWS ((size_t)B * H * S)

/* Where each part begins, in bytes. */
#define AT_QKV HEADER_BYTES
#define AT_TANGENT (AT_QKV + PACKED * sizeof(float))
#define AT_O (AT_TANGENT + PACKED * sizeof(float))
#define AT_TO (AT_O + OUTPUT * sizeof(float))
#define AT_LSE (AT_TO + OUTPUT * sizeof(float))
#define AT_TLSE (AT_LSE + ROWS * sizeof(float))
#define BUFFER_BYTES (AT_TLSE + ROWS * sizeof(float))

static void check(cl_int error, const char *what)
{
    if (error == CL_SUCCESS)
        return;
    fprintf(stderr, "%s: OpenCL error %d\n", what, (int)error);
    exit(EXIT_FAILURE);
}

static void check_clattn(clattn_status status, const char *what)
{
    if (status == CLATTN_SUCCESS)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, clattn_status_name(status), clattn_message());
    exit(EXIT_FAILURE);
}

/* Numbers in [-1, 1), the same in every run. */
static void fill(float *array, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        array[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
}

static cl_device_id first_device(void)
{
    cl_platform_id platforms[16];
    cl_uint count = 0;
    check(clGetPlatformIDs(16, platforms, &count), "clGetPlatformIDs");
    for (cl_uint i = 0; i < count && i < 16; i++) {
        cl_device_id device;
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS)
            return device;
    }
    fprintf(stderr, "no OpenCL device\n");
    exit(EXIT_FAILURE);
}

/* Q, K, V and O are [B,S,...]: heads are D apart, positions a whole row of all heads. */
static void set_strides(clattn_problem *problem)
{
    static const clattn_tensor packed[] = {CLATTN_Q, CLATTN_K, CLATTN_V, CLATTN_TQ, CLATTN_TK, CLATTN_TV};
    static const clattn_tensor outputs[] = {CLATTN_O, CLATTN_TO};
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
        problem->strides[packed[i]] = (clattn_strides){.batch = S * 3 * H * D, .head = D, .row = 3 * H * D};
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        problem->strides[outputs[i]] = (clattn_strides){.batch = S * H * D, .head = D, .row = H * D};
}

static clattn_plan *make_plan(clattn_context *context, clattn_operation operation)
{
    clattn_problem problem;
    clattn_problem_init(&problem, operation, &(clattn_sizes){B, H, H, S, S, D, D});
    problem.causal = CLATTN_CAUSAL_TOP_LEFT;
    if (operation == CLATTN_JVP)
        problem.present[CLATTN_TQ] = problem.present[CLATTN_TK] = problem.present[CLATTN_TV] = true;
    set_strides(&problem);
    clattn_plan *plan;
    check_clattn(clattn_plan_create(context, operation, &problem, &plan), "clattn_plan_create");
    return plan;
}

/* Names the place of every tensor of an operation in the one buffer. */
static void place(clattn_buffer buffers[CLATTN_TENSOR_COUNT], cl_mem memory, clattn_operation operation)
{
    const size_t third = H * D * sizeof(float);
    buffers[CLATTN_Q] = (clattn_buffer){memory, AT_QKV};
    buffers[CLATTN_K] = (clattn_buffer){memory, AT_QKV + third};
    buffers[CLATTN_V] = (clattn_buffer){memory, AT_QKV + 2 * third};
    buffers[CLATTN_O] = (clattn_buffer){memory, AT_O};
    buffers[CLATTN_LSE] = (clattn_buffer){memory, AT_LSE};
    if (operation != CLATTN_JVP)
        return; /* a tensor that the problem does not have must be {NULL, 0} */
    buffers[CLATTN_TQ] = (clattn_buffer){memory, AT_TANGENT};
    buffers[CLATTN_TK] = (clattn_buffer){memory, AT_TANGENT + third};
    buffers[CLATTN_TV] = (clattn_buffer){memory, AT_TANGENT + 2 * third};
    buffers[CLATTN_TO] = (clattn_buffer){memory, AT_TO};
    buffers[CLATTN_TLSE] = (clattn_buffer){memory, AT_TLSE};
}

/* Workspace that a plan asks for; NULL when it asks for none. */
static cl_mem make_workspace(cl_context cl, const clattn_plan *plan)
{
    clattn_plan_info info;
    check_clattn(clattn_plan_describe(plan, &info), "clattn_plan_describe");
    printf("engine %s, tiles %s, workspace %llu bytes\n", info.engine, info.tiles,
           (unsigned long long)info.workspace_bytes);
    if (info.workspace_bytes == 0)
        return NULL;
    cl_int error;
    cl_mem workspace = clCreateBuffer(cl, CL_MEM_READ_WRITE, (size_t)info.workspace_bytes, NULL, &error);
    check(error, "clCreateBuffer");
    return workspace;
}

/*
 * Writes QKV (and its tangent, unless NULL), runs the operation and reads O
 * and L, or for a JVP their tangents: each step waits for the events of the
 * one before, so the queue may be out of order. Only the last read blocks.
 */
static void run(clattn_context *context, cl_command_queue queue, cl_mem memory, const float *qkv,
                const float *tangent, float *output, float *rows)
{
    const clattn_operation operation = tangent ? CLATTN_JVP : CLATTN_FORWARD;
    clattn_plan *plan = make_plan(context, operation);
    cl_mem workspace = make_workspace(clattn_context_cl(context), plan);
    clattn_buffer buffers[CLATTN_TENSOR_COUNT] = {{NULL, 0}};
    place(buffers, memory, operation);

    cl_event written[2], computed;
    const cl_uint writes = tangent ? 2 : 1;
    check(clEnqueueWriteBuffer(queue, memory, CL_FALSE, AT_QKV, PACKED * sizeof(float), qkv, 0, NULL,
                               &written[0]),
          "clEnqueueWriteBuffer");
    if (tangent)
        check(clEnqueueWriteBuffer(queue, memory, CL_FALSE, AT_TANGENT, PACKED * sizeof(float), tangent, 0,
                                   NULL, &written[1]),
              "clEnqueueWriteBuffer");
    check_clattn(clattn_enqueue(plan, queue, buffers, workspace, writes, written, &computed),
                 "clattn_enqueue");
    const size_t output_at = tangent ? AT_TO : AT_O, rows_at = tangent ? AT_TLSE : AT_LSE;
    check(clEnqueueReadBuffer(queue, memory, CL_FALSE, output_at, OUTPUT * sizeof(float), output, 1,
                              &computed, NULL),
          "clEnqueueReadBuffer");
    check(
        clEnqueueReadBuffer(queue, memory, CL_FALSE, rows_at, ROWS * sizeof(float), rows, 1, &computed, NULL),
        "clEnqueueReadBuffer");
    check(clFinish(queue), "clFinish");

    for (cl_uint i = 0; i < writes; i++)
        clReleaseEvent(written[i]);
    clReleaseEvent(computed);
    if (workspace)
        clReleaseMemObject(workspace);
    clattn_plan_release(plan);
}

/* ||tangent - (after - before) / (2 step)|| / ||tangent|| */
static double difference(const float *tangent, const float *after, const float *before, double step,
                         size_t count)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        const double slope = ((double)after[i] - before[i]) / (2 * step);
        error += (tangent[i] - slope) * (tangent[i] - slope);
        size += (double)tangent[i] * tangent[i];
    }
    return sqrt(error / size);
}

static float qkv[PACKED], tangent[PACKED], moved[PACKED];
static float tangent_o[OUTPUT], o_after[OUTPUT], o_before[OUTPUT];
static float tangent_lse[ROWS], lse_after[ROWS], lse_before[ROWS];

int main(void)
{
    fill(qkv, PACKED, 1);
    fill(tangent, PACKED, 2);

    cl_int error;
    cl_device_id device = first_device();
    cl_context cl = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    check(error, "clCreateContext");
    cl_command_queue queue = clCreateCommandQueue(cl, device, 0, &error);
    check(error, "clCreateCommandQueue");
    cl_mem memory = clCreateBuffer(cl, CL_MEM_READ_WRITE, BUFFER_BYTES, NULL, &error);
    check(error, "clCreateBuffer");
    clattn_context *context;
    check_clattn(clattn_context_create(cl, device, &context), "clattn_context_create");

    run(context, queue, memory, qkv, tangent, tangent_o, tangent_lse);

    /* The same along the direction of the tangent, one step each way. */
    const double step = 1e-2;
    for (size_t i = 0; i < PACKED; i++)
        moved[i] = (float)(qkv[i] + step * tangent[i]);
    run(context, queue, memory, moved, NULL, o_after, lse_after);
    for (size_t i = 0; i < PACKED; i++)
        moved[i] = (float)(qkv[i] - step * tangent[i]);
    run(context, queue, memory, moved, NULL, o_before, lse_before);

    /* Two programs: the second forward call found that of the first in the context. */
    printf("%d programs built\n", clattn_context_programs_built(context));
    clattn_context_release(context);
    clReleaseMemObject(memory);
    clReleaseCommandQueue(queue);
    clReleaseContext(cl);

    const double error_o = difference(tangent_o, o_after, o_before, step, OUTPUT);
    const double error_lse = difference(tangent_lse, lse_after, lse_before, step, ROWS);
    printf("against central differences: O' %.1e, L' %.1e\n", error_o, error_lse);
    return error_o < 1e-3 && error_lse < 1e-3 ? EXIT_SUCCESS : EXIT_FAILURE;
}
