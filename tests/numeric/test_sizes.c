/* Every engine over shapes: lengths in threes around the tile edges, head dims of every class, heads, layouts. */
#include <stdio.h>

#include "suite.h"

static void shape_case(clattn_operation operation, const clattn_sizes *sizes, int64_t row_gap)
{
    struct trial trial;
    trial_init(&trial, operation, sizes);
    trial.row_gap = row_gap;
    trial_add_derivatives(&trial);
    trial_fill(&trial, 7);
    char what[128];
    snprintf(what, sizeof what, "%s B%lld Hq%lld Hkv%lld M%lld N%lld D%lld Dv%lld",
             clattn_operation_name(operation), (long long)sizes->batch, (long long)sizes->heads_q,
             (long long)sizes->heads_kv, (long long)sizes->queries, (long long)sizes->keys,
             (long long)sizes->head_dim, (long long)sizes->head_dim_v);
    must_pass(&trial, what);
}

static const int64_t lengths[] = {0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129};
#define LENGTHS (sizeof lengths / sizeof *lengths)

static void lengths_around_tile_edges(clattn_operation operation)
{
    for (size_t m = 0; m < LENGTHS; m++)
        for (size_t n = 0; n < LENGTHS; n++)
            shape_case(operation, &(clattn_sizes){1, 1, 1, lengths[m], lengths[n], 16, 16}, 0);
}
static void test_forward_lengths_around_tile_edges(void **state)
{
    (void)state;
    lengths_around_tile_edges(CLATTN_FORWARD);
}
static void test_jvp_lengths_around_tile_edges(void **state)
{
    (void)state;
    lengths_around_tile_edges(CLATTN_JVP);
}

static void test_vjp_lengths_around_tile_edges(void **state)
{
    (void)state;
    lengths_around_tile_edges(CLATTN_VJP);
}
static void test_hvp_lengths_around_tile_edges(void **state)
{
    (void)state;
    lengths_around_tile_edges(CLATTN_HVP);
}

static void every_operation(const clattn_sizes *sizes, int64_t row_gap)
{
    for (int operation = 0; operation < CLATTN_OPERATION_COUNT; operation++)
        shape_case((clattn_operation)operation, sizes, row_gap);
}

static void test_head_dims_of_every_class(void **state)
{
    (void)state;
    static const int64_t dims[] = {1,  2,  3,  15,  16,  17,  31,  32,  33,  63,  64, 65,
                                   95, 96, 97, 127, 128, 129, 191, 192, 193, 255, 256};
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
        const clattn_sizes sizes = {1, 2, 1, 33, 35, dims[d], dims[d]};
        shape_case(CLATTN_FORWARD, &sizes, 0);
        shape_case(CLATTN_JVP, &sizes, 0);
    }
}

/* A backward program takes longest to compile: the smallest class, one in the middle, the largest of all tiles. */
static void test_gradients_at_few_head_dims(void **state)
{
    (void)state;
    static const int64_t dims[] = {1, 15, 16, 63, 64, 65, 255, 256};
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
        const clattn_sizes sizes = {1, 2, 1, 33, 35, dims[d], dims[d]};
        shape_case(CLATTN_VJP, &sizes, 0);
        shape_case(CLATTN_HVP, &sizes, 0);
    }
}

static void test_value_head_dim_differs(void **state)
{
    (void)state;
    static const int64_t pairs[][2] = {{16, 24}, {24, 16}, {5, 64}, {64, 1}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        every_operation(&(clattn_sizes){1, 1, 1, 20, 37, pairs[i][0], pairs[i][1]}, 0);
}

static void test_grouped_heads_and_batches(void **state)
{
    (void)state;
    static const int64_t heads[][2] = {{1, 1}, {4, 4}, {4, 2}, {4, 1}, {6, 3}, {0, 0}, {0, 2}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        for (int64_t batch = 0; batch <= 3; batch++)
            every_operation(&(clattn_sizes){batch, heads[i][0], heads[i][1], 9, 40, 16, 16}, 0);
}

static void test_rows_apart_leave_the_gaps_alone(void **state)
{
    (void)state;
    for (int64_t gap = 1; gap <= 5; gap++)
        every_operation(&(clattn_sizes){2, 4, 2, 19, 33, 16, 12}, gap);
}

static void test_sequence_major_layout(void **state)
{
    (void)state;
    struct trial trial;
    trial_init(&trial, CLATTN_HVP, &(clattn_sizes){2, 4, 2, 19, 33, 16, 12});
    clattn_problem_set_contiguous(&trial.problem, true);
    trial_add_derivatives(&trial);
    trial_fill(&trial, 8);
    must_pass(&trial, "bshd");
}

static void test_many_heads(void **state)
{
    (void)state;
    shape_case(CLATTN_FORWARD, &(clattn_sizes){300, 230, 230, 1, 2, 2, 2}, 0);
}

static void test_long_row_of_keys(void **state)
{
    (void)state;
    shape_case(CLATTN_FORWARD, &(clattn_sizes){1, 1, 1, 1, 4097, 16, 16}, 0);
    shape_case(CLATTN_JVP, &(clattn_sizes){1, 1, 1, 3, 8193, 16, 16}, 0);
    shape_case(CLATTN_HVP, &(clattn_sizes){1, 1, 1, 3, 2049, 16, 16}, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward_lengths_around_tile_edges),
        cmocka_unit_test(test_jvp_lengths_around_tile_edges),
        cmocka_unit_test(test_vjp_lengths_around_tile_edges),
        cmocka_unit_test(test_hvp_lengths_around_tile_edges),
        cmocka_unit_test(test_head_dims_of_every_class),
        cmocka_unit_test(test_gradients_at_few_head_dims),
        cmocka_unit_test(test_value_head_dim_differs),
        cmocka_unit_test(test_grouped_heads_and_batches),
        cmocka_unit_test(test_rows_apart_leave_the_gaps_alone),
        cmocka_unit_test(test_sequence_major_layout),
        cmocka_unit_test(test_many_heads),
        cmocka_unit_test(test_long_row_of_keys),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
