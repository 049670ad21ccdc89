/* Tiles that a rule leaves empty are skipped: the count of those visited, against every pair of each tile. */
#include <stdio.h>
#include <string.h>

#include "suite.h"

enum {
    QUERIES = 150,
    KEYS = 200,
    HEADS = 2,
    BLOCK = 64
};

struct tiling {
    int outer, inner;
};

/* Does query i of head h attend to key j? */
typedef bool rule(int h, int i, int j);

static bool causal(int h, int i, int j)
{
    (void)h;
    return j <= i;
}
static bool bottom_right(int h, int i, int j)
{
    (void)h;
    return j <= i + KEYS - QUERIES;
}
static bool short_keys(int h, int i, int j)
{
    (void)h, (void)i;
    return j < 70;
}
/* 1 block in 8 */
static bool block(int h, int i, int j) { return (i / BLOCK * 5 + j / BLOCK + h) % 8 == 0; }
static bool segment(int h, int i, int j)
{
    (void)h;
    return i / 40 == j / 50;
}

static bool any_attends(rule *attends, int h, int i0, int j0, struct tiling tiling)
{
    for (int i = i0; i < i0 + tiling.outer && i < QUERIES; i++)
        for (int j = j0; j < j0 + tiling.inner && j < KEYS; j++)
            if (attends(h, i, j))
                return true;
    return false;
}

static void count_by_hand(rule *attends, struct tiling tiling, clattn_tile_count *count)
{
    *count = (clattn_tile_count){0, 0};
    for (int h = 0; h < HEADS; h++)
        for (int i0 = 0; i0 < QUERIES; i0 += tiling.outer)
            for (int j0 = 0; j0 < KEYS; j0 += tiling.inner)
                any_attends(attends, h, i0, j0, tiling) ? count->visited++ : count->skipped++;
}

static struct tiling tiling_of(const clattn_plan *plan)
{
    clattn_plan_info info;
    struct tiling tiling;
    assert_int_equal(clattn_plan_describe(plan, &info), CLATTN_SUCCESS);
    assert_int_equal(sscanf(info.tiles, "%dx%d", &tiling.outer, &tiling.inner), 2);
    return tiling;
}

/* Data that the count depends on; every other buffer only has to be large enough. */
static const void *contents_of(clattn_tensor tensor)
{
    static const int32_t length = 70;
    static int32_t q_ids[QUERIES], kv_ids[KEYS];
    static unsigned char blocks[HEADS][3][4];
    for (int i = 0; i < QUERIES; i++)
        q_ids[i] = i / 40;
    for (int j = 0; j < KEYS; j++)
        kv_ids[j] = j / 50;
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 4; j++)
                blocks[h][i][j] = block(h, i * BLOCK, j * BLOCK);
    switch (tensor) {
    case CLATTN_KV_LENGTHS:
        return &length;
    case CLATTN_Q_SEGMENTS:
        return q_ids;
    case CLATTN_KV_SEGMENTS:
        return kv_ids;
    case CLATTN_BLOCK_MASK:
        return blocks;
    default:
        return NULL;
    }
}

static void make_buffers(const clattn_problem *problem, cl_command_queue queue,
                         clattn_buffer buffers[CLATTN_TENSOR_COUNT])
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        const size_t bytes = clattn_problem_bytes(problem, (clattn_tensor)t);
        const void *contents = contents_of((clattn_tensor)t);
        buffers[t] = (clattn_buffer){NULL, 0};
        if (!problem->present[t])
            continue;
        cl_int error;
        buffers[t].memory =
            clCreateBuffer(clattn_context_cl(suite_context), CL_MEM_READ_WRITE, bytes, NULL, &error);
        assert_int_equal(error, CL_SUCCESS);
        if (contents)
            assert_int_equal(
                clEnqueueWriteBuffer(queue, buffers[t].memory, CL_TRUE, 0, bytes, contents, 0, NULL, NULL),
                CL_SUCCESS);
    }
}

static void must_visit(const clattn_problem *problem, rule *attends, const char *what)
{
    cl_int error;
    clattn_plan *plan;
    clattn_buffer buffers[CLATTN_TENSOR_COUNT];
    clattn_tile_count counted, expected;
    if (clattn_plan_create(suite_context, CLATTN_FORWARD, problem, &plan) != CLATTN_SUCCESS)
        fail_msg("%s: %s", what, clattn_message());
    cl_command_queue queue = clCreateCommandQueue(clattn_context_cl(suite_context),
                                                  clattn_context_device(suite_context), 0, &error);
    assert_int_equal(error, CL_SUCCESS);
    make_buffers(problem, queue, buffers);
    if (clattn_count_tiles(plan, queue, buffers, &counted) != CLATTN_SUCCESS)
        fail_msg("%s: %s", what, clattn_message());
    count_by_hand(attends, tiling_of(plan), &expected);
    if (counted.visited != expected.visited || counted.skipped != expected.skipped)
        fail_msg("%s on %s: visited %d, skipped %d; expected %d and %d", what, problem->engine,
                 (int)counted.visited, (int)counted.skipped, (int)expected.visited, (int)expected.skipped);
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        if (buffers[t].memory)
            clReleaseMemObject(buffers[t].memory);
    clReleaseCommandQueue(queue);
    clattn_plan_release(plan);
}

static clattn_problem problem_of(const char *engine)
{
    clattn_problem problem;
    clattn_problem_init(&problem, CLATTN_FORWARD, &(clattn_sizes){1, HEADS, HEADS, QUERIES, KEYS, 16, 16});
    problem.engine = engine;
    return problem;
}

static void test_tiles_that_position_empties_are_skipped(void **state)
{
    (void)state;
    FOR_EACH_ENGINE(engine, CLATTN_F32)
    {
        clattn_problem problem = problem_of(engine);
        problem.causal = CLATTN_CAUSAL_TOP_LEFT;
        must_visit(&problem, causal, "causal top-left");
        problem.causal = CLATTN_CAUSAL_BOTTOM_RIGHT;
        must_visit(&problem, bottom_right, "causal bottom-right");
        problem.causal = CLATTN_CAUSAL_NONE;
        problem.present[CLATTN_KV_LENGTHS] = true;
        must_visit(&problem, short_keys, "kv lengths");
    }
}

static void test_blocks_that_are_skipped_cost_no_tile(void **state)
{
    (void)state;
    FOR_EACH_ENGINE(engine, CLATTN_F32)
    {
        clattn_problem problem = problem_of(engine);
        problem.present[CLATTN_BLOCK_MASK] = true;
        problem.block_rows = problem.block_columns = BLOCK;
        clattn_problem_set_contiguous(&problem, false);
        must_visit(&problem, block, "block mask");
    }
}

static void test_segments_that_are_apart_cost_no_tile(void **state)
{
    (void)state;
    FOR_EACH_ENGINE(engine, CLATTN_F32)
    {
        clattn_problem problem = problem_of(engine);
        problem.present[CLATTN_Q_SEGMENTS] = problem.present[CLATTN_KV_SEGMENTS] = true;
        must_visit(&problem, segment, "sorted segments");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiles_that_position_empties_are_skipped),
        cmocka_unit_test(test_blocks_that_are_skipped_cost_no_tile),
        cmocka_unit_test(test_segments_that_are_apart_cost_no_tile),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
