/* Attention over keys cut in pieces and merged equals the whole: output, log-sum-exp and their tangents. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "suite.h"

enum {
    BATCH = 2,
    HEADS = 3,
    QUERIES = 21,
    HEAD_DIM = 16,
    TANGENTS = 2,
    MOST_KEYS = 75
};
enum {
    ROWS = BATCH * HEADS * QUERIES,
    WIDE = ROWS * HEAD_DIM
};

/* What a JVP call leaves, in host memory. */
struct outputs {
    float o[WIDE], lse[ROWS], lse_low[ROWS], to[TANGENTS * WIDE], tlse[TANGENTS * ROWS];
};

struct inputs {
    int64_t keys;
    float bias; /* one constant for every pair: large ones hide the sum in L */
    float q[WIDE], k[BATCH * HEADS * MOST_KEYS * HEAD_DIM], v[BATCH * HEADS * MOST_KEYS * HEAD_DIM];
    float tq[TANGENTS * WIDE], tk[TANGENTS * BATCH * HEADS * MOST_KEYS * HEAD_DIM];
};

static void fill(float *values, size_t count, double frequency)
{
    for (size_t n = 0; n < count; n++)
        values[n] = (float)sin(frequency * (double)(n * n % 10007 + 1));
}

static void fill_inputs(struct inputs *in, int64_t keys, float bias)
{
    in->keys = keys;
    in->bias = bias;
    fill(in->q, sizeof in->q / sizeof(float), 0.91);
    fill(in->k, sizeof in->k / sizeof(float), 1.37);
    fill(in->v, sizeof in->v / sizeof(float), 0.53);
    fill(in->tq, sizeof in->tq / sizeof(float), 2.11);
    fill(in->tk, sizeof in->tk / sizeof(float), 1.73);
}

/* Attention to keys [first, last). */
static void attend(struct inputs *in, int64_t first, int64_t last, struct outputs *out)
{
    const clattn_sizes sizes = {BATCH, HEADS, HEADS, QUERIES, last - first, HEAD_DIM, HEAD_DIM};
    clattn_problem p;
    clattn_problem_init(&p, CLATTN_JVP, &sizes);
    p.tangents = TANGENTS;
    p.present[CLATTN_TQ] = p.present[CLATTN_TK] = p.present[CLATTN_LSE_LOW] = p.present[CLATTN_BIAS] = true;
    clattn_problem_set_contiguous(&p, false);
    p.strides[CLATTN_BIAS] = (clattn_strides){0};
    const int64_t head = in->keys * HEAD_DIM;
    p.strides[CLATTN_K] = p.strides[CLATTN_V] = p.strides[CLATTN_TK] = (clattn_strides){
        .tangent = BATCH * HEADS * head, .batch = HEADS * head, .head = head, .row = HEAD_DIM};
    void *arrays[CLATTN_TENSOR_COUNT] = {NULL};
    arrays[CLATTN_Q] = in->q, arrays[CLATTN_TQ] = in->tq, arrays[CLATTN_BIAS] = &in->bias;
    arrays[CLATTN_K] = in->k + first * HEAD_DIM, arrays[CLATTN_V] = in->v + first * HEAD_DIM;
    arrays[CLATTN_TK] = in->tk + first * HEAD_DIM;
    arrays[CLATTN_O] = out->o, arrays[CLATTN_LSE] = out->lse, arrays[CLATTN_LSE_LOW] = out->lse_low;
    arrays[CLATTN_TO] = out->to, arrays[CLATTN_TLSE] = out->tlse;
    if (clattn_compute(suite_context, CLATTN_JVP, &p, arrays) != CLATTN_SUCCESS)
        fail_msg("%s", clattn_message());
}

/* The arrays of one struct outputs in one buffer. */
static clattn_partial partial_in(cl_mem memory)
{
    return (clattn_partial){
        .o = {memory, offsetof(struct outputs, o)},
        .lse = {memory, offsetof(struct outputs, lse)},
        .lse_low = {memory, offsetof(struct outputs, lse_low)},
        .to = {memory, offsetof(struct outputs, to)},
        .tlse = {memory, offsetof(struct outputs, tlse)},
    };
}

static cl_mem upload(struct outputs *out)
{
    cl_int error;
    cl_mem memory = clCreateBuffer(clattn_context_cl(suite_context), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                   sizeof *out, out, &error);
    assert_int_equal(error, CL_SUCCESS);
    return memory;
}

/* *into takes in *piece, in place. */
static void merge_into(struct outputs *into, struct outputs *piece)
{
    cl_int error;
    cl_command_queue queue = clCreateCommandQueue(clattn_context_cl(suite_context),
                                                  clattn_context_device(suite_context), 0, &error);
    assert_int_equal(error, CL_SUCCESS);
    cl_mem first = upload(into), second = upload(piece);
    const clattn_merge_sizes sizes = {CLATTN_F32, BATCH, HEADS, QUERIES, HEAD_DIM, TANGENTS};
    const clattn_partial a = partial_in(first), b = partial_in(second);
    if (clattn_enqueue_merge(suite_context, queue, &sizes, &a, &b, &a, 0, NULL, NULL) != CLATTN_SUCCESS)
        fail_msg("%s", clattn_message());
    assert_int_equal(clEnqueueReadBuffer(queue, first, CL_TRUE, 0, sizeof *into, into, 0, NULL, NULL),
                     CL_SUCCESS);
    clReleaseMemObject(first);
    clReleaseMemObject(second);
    clReleaseCommandQueue(queue);
}

static void must_be_near(const char *what, const float *ours, const float *whole, size_t count)
{
    double difference = 0, norm = 0;
    for (size_t n = 0; n < count; n++) {
        if (isinf(whole[n]) && ours[n] == whole[n])
            continue;
        difference += pow((double)ours[n] - whole[n], 2);
        norm += pow(whole[n], 2);
    }
    if (!(sqrt(difference) <= 2e-6 * sqrt(norm)))
        fail_msg("%s: relative error %.3g", what, sqrt(difference / norm));
}

static void pieces_merged_are_the_whole(int64_t keys, int pieces, float bias)
{
    static struct inputs in;
    static struct outputs whole, merged, piece;
    fill_inputs(&in, keys, bias);
    attend(&in, 0, keys, &whole);
    attend(&in, 0, keys / pieces, &merged);
    for (int n = 1; n < pieces; n++) {
        attend(&in, n * keys / pieces, (n + 1) * keys / pieces, &piece);
        merge_into(&merged, &piece);
    }
    must_be_near("o", merged.o, whole.o, WIDE);
    must_be_near("lse", merged.lse, whole.lse, ROWS);
    must_be_near("to", merged.to, whole.to, TANGENTS * WIDE);
    must_be_near("tlse", merged.tlse, whole.tlse, TANGENTS * ROWS);
}

static void test_pieces_merged_are_the_whole(void **state)
{
    (void)state;
    static const int pieces[] = {2, 3, 7};
    for (int i = 0; i < 3; i++) {
        pieces_merged_are_the_whole(75, pieces[i], 0);
        pieces_merged_are_the_whole(2, pieces[i], 0); /* some pieces have no key */
        pieces_merged_are_the_whole(0, pieces[i], 0); /* none has */
    }
}

/* Without lse_low the pieces would all look the same size. */
static void test_uneven_pieces_at_a_large_lse(void **state)
{
    (void)state;
    pieces_merged_are_the_whole(74, 3, -1e30f);
}

static void test_wrong_arguments_are_named(void **state)
{
    (void)state;
    cl_int error;
    cl_command_queue queue = clCreateCommandQueue(clattn_context_cl(suite_context),
                                                  clattn_context_device(suite_context), 0, &error);
    static struct outputs out;
    cl_mem memory = upload(&out);
    const clattn_partial good = partial_in(memory);
    clattn_merge_sizes sizes = {CLATTN_F32, BATCH, HEADS, QUERIES, HEAD_DIM, TANGENTS};
    clattn_partial bad = good;
    bad.lse.memory = NULL;
    assert_int_equal(clattn_enqueue_merge(suite_context, queue, &sizes, &good, &bad, &good, 0, NULL, NULL),
                     CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_message(), "second lse"));
    bad = good;
    bad.o.offset = 2;
    assert_int_equal(clattn_enqueue_merge(suite_context, queue, &sizes, &good, &good, &bad, 0, NULL, NULL),
                     CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_message(), "merged o"));
    bad = good;
    bad.lse.offset += sizeof(float);
    assert_int_equal(clattn_enqueue_merge(suite_context, queue, &sizes, &good, &good, &bad, 0, NULL, NULL),
                     CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_message(), "merged lse: overlaps first lse"));
    cl_mem unfit =
        clCreateBuffer(clattn_context_cl(suite_context), CL_MEM_READ_ONLY, sizeof out, NULL, &error);
    bad = good;
    bad.tlse.memory = unfit;
    assert_int_equal(clattn_enqueue_merge(suite_context, queue, &sizes, &good, &good, &bad, 0, NULL, NULL),
                     CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_message(), "merged tlse: a CL_MEM_READ_ONLY buffer"));
    clReleaseMemObject(unfit);
    unfit = clCreateBuffer(clattn_context_cl(suite_context), CL_MEM_WRITE_ONLY, sizeof out, NULL, &error);
    bad.tlse.memory = unfit;
    assert_int_equal(clattn_enqueue_merge(suite_context, queue, &sizes, &good, &bad, &good, 0, NULL, NULL),
                     CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_message(), "second tlse: a CL_MEM_WRITE_ONLY buffer"));
    clReleaseMemObject(unfit);
    const cl_event none = NULL;
    assert_int_equal(clattn_enqueue_merge(suite_context, queue, &sizes, &good, &good, &good, 1, &none, NULL),
                     CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_message(), "wait_list: entry 0 is NULL"));
    clattn_merge_sizes vast = {CLATTN_F32, 1, 1, INT64_C(1) << 28, INT64_C(1) << 28, INT64_C(1) << 10};
    assert_int_equal(clattn_enqueue_merge(suite_context, queue, &vast, &good, &good, &good, 0, NULL, NULL),
                     CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_message(), "tangents: 1024"));
    sizes.queries = -1;
    assert_int_equal(clattn_enqueue_merge(suite_context, queue, &sizes, &good, &good, &good, 0, NULL, NULL),
                     CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_message(), "queries: -1"));
    clReleaseMemObject(memory);
    clReleaseCommandQueue(queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_merged_are_the_whole),
        cmocka_unit_test(test_uneven_pieces_at_a_large_lse),
        cmocka_unit_test(test_wrong_arguments_are_named),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
