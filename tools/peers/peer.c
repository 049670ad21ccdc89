/*
 * clattn behind a few calls for scripts that measure it beside other
 * libraries in one process (tools/cpu_peers.py): a plan with buffers of its
 * own, filled and read by the names of tensors. 0 or a pointer is success;
 * peer_message() says what went wrong.
 */
#include <clattn/clattn.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

typedef struct peer {
    clattn_context *context;
    clattn_plan *plan;
    clattn_problem problem;
    cl_command_queue queue;
    cl_mem workspace;
    clattn_buffer buffers[CLATTN_TENSOR_COUNT];
} peer;

/* What a script may ask for; ints are as clattn_operation and clattn_dtype. */
typedef struct peer_request {
    int operation, dtype;
    int64_t batch, heads, queries, keys, head_dim;
    int causal;         /* top left */
    int mask, bias;     /* of [1,1,M,N] */
    int forward_given;  /* for VJP and HVP */
    const char *engine; /* NULL: the library's choice */
} peer_request;

EXPORTED const char *peer_message(void);
EXPORTED peer *peer_open(const char *device, const peer_request *request);
EXPORTED void peer_close(peer *p);
EXPORTED int peer_write(peer *p, const char *tensor, const void *data, size_t bytes);
EXPORTED int peer_read(peer *p, const char *tensor, void *data, size_t bytes);
EXPORTED int peer_run(peer *p);
EXPORTED const char *peer_engine(peer *p, char *tiles, size_t size);
EXPORTED uint64_t peer_workspace(peer *p);
EXPORTED uint64_t peer_result_bytes(peer *p);

const char *peer_message(void) { return clattn_message(); }

static void set_broadcast(clattn_problem *problem, clattn_tensor tensor)
{
    problem->present[tensor] = true;
    problem->strides[tensor].batch = 0;
    problem->strides[tensor].head = 0;
}

static void describe(const peer_request *request, clattn_problem *problem)
{
    const clattn_operation operation = (clattn_operation)request->operation;
    const clattn_sizes sizes = {request->batch, request->heads,    request->heads,   request->queries,
                                request->keys,  request->head_dim, request->head_dim};
    clattn_problem_init(problem, operation, &sizes);
    problem->dtype = problem->out_dtype = (clattn_dtype)request->dtype;
    problem->causal = request->causal ? CLATTN_CAUSAL_TOP_LEFT : CLATTN_CAUSAL_NONE;
    problem->engine = request->engine;
    problem->forward_given = request->forward_given != 0;
    problem->present[CLATTN_LSE_LOW] = problem->forward_given;
    if (operation == CLATTN_JVP || operation == CLATTN_HVP)
        problem->present[CLATTN_TQ] = problem->present[CLATTN_TK] = problem->present[CLATTN_TV] = true;
    if (operation == CLATTN_HVP)
        problem->present[CLATTN_TDO] = true;
    if (request->mask)
        set_broadcast(problem, CLATTN_MASK);
    if (request->bias)
        set_broadcast(problem, CLATTN_BIAS);
}

static int make_buffers(peer *p)
{
    cl_int error = CL_SUCCESS;
    for (int t = 0; t < CLATTN_TENSOR_COUNT && error == CL_SUCCESS; t++) {
        const size_t bytes = p->problem.present[t] ? clattn_problem_bytes(&p->problem, (clattn_tensor)t) : 0;
        if (bytes)
            p->buffers[t].memory =
                clCreateBuffer(clattn_context_cl(p->context), CL_MEM_READ_WRITE, bytes, NULL, &error);
    }
    const uint64_t workspace = peer_workspace(p);
    if (workspace && error == CL_SUCCESS)
        p->workspace =
            clCreateBuffer(clattn_context_cl(p->context), CL_MEM_READ_WRITE, workspace, NULL, &error);
    return error == CL_SUCCESS;
}

static int make(peer *p, const char *device, const peer_request *request)
{
    describe(request, &p->problem);
    if (clattn_context_open(device, &p->context) != CLATTN_SUCCESS ||
        clattn_plan_create(p->context, (clattn_operation)request->operation, &p->problem, &p->plan) !=
            CLATTN_SUCCESS)
        return 0;
    cl_int error;
    p->queue =
        clCreateCommandQueue(clattn_context_cl(p->context), clattn_context_device(p->context), 0, &error);
    return error == CL_SUCCESS && make_buffers(p);
}

peer *peer_open(const char *device, const peer_request *request)
{
    peer *p = calloc(1, sizeof *p);
    if (p && !make(p, device, request)) {
        peer_close(p);
        return NULL;
    }
    return p;
}

void peer_close(peer *p)
{
    if (!p)
        return;
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        if (p->buffers[t].memory)
            clReleaseMemObject(p->buffers[t].memory);
    if (p->workspace)
        clReleaseMemObject(p->workspace);
    if (p->queue)
        clReleaseCommandQueue(p->queue);
    clattn_plan_release(p->plan);
    clattn_context_release(p->context);
    free(p);
}

static cl_mem memory_of(const peer *p, const char *tensor)
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        if (strcmp(clattn_tensor_name((clattn_tensor)t), tensor) == 0)
            return p->buffers[t].memory;
    return NULL;
}

int peer_write(peer *p, const char *tensor, const void *data, size_t bytes)
{
    return (int)clEnqueueWriteBuffer(p->queue, memory_of(p, tensor), CL_TRUE, 0, bytes, data, 0, NULL, NULL);
}

int peer_read(peer *p, const char *tensor, void *data, size_t bytes)
{
    return (int)clEnqueueReadBuffer(p->queue, memory_of(p, tensor), CL_TRUE, 0, bytes, data, 0, NULL, NULL);
}

int peer_run(peer *p)
{
    const clattn_status status = clattn_enqueue(p->plan, p->queue, p->buffers, p->workspace, 0, NULL, NULL);
    return status == CLATTN_SUCCESS ? (int)clFinish(p->queue) : (int)status;
}

const char *peer_engine(peer *p, char *tiles, size_t size)
{
    clattn_plan_info info;
    if (clattn_plan_describe(p->plan, &info) != CLATTN_SUCCESS)
        return NULL;
    strncpy(tiles, info.tiles, size - 1);
    tiles[size - 1] = 0;
    return info.engine;
}

uint64_t peer_workspace(peer *p)
{
    clattn_plan_info info;
    return clattn_plan_describe(p->plan, &info) == CLATTN_SUCCESS ? info.workspace_bytes : 0;
}

/* Bytes of the buffers that hold results, and of scratch: what a call needs beyond its inputs. */
uint64_t peer_result_bytes(peer *p)
{
    uint64_t bytes = peer_workspace(p);
    clattn_plan_info info;
    if (clattn_plan_describe(p->plan, &info) != CLATTN_SUCCESS)
        return 0;
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        if (p->problem.present[t] && clattn_problem_is_output(&p->problem, info.operation, (clattn_tensor)t))
            bytes += clattn_problem_bytes(&p->problem, (clattn_tensor)t);
    return bytes;
}
