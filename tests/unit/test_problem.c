/* Defends the checks of a problem and their messages, its shapes and its sizes. Needs no device. */
#include "clattn/clattn.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof *(array)))

static const clattn_sizes sizes = {2, 4, 2, 5, 7, 16, 12};

static clattn_problem problem_of(clattn_operation operation)
{
    clattn_problem problem;
    clattn_problem_init(&problem, operation, &sizes);
    return problem;
}

/* True of a check that was stopped by an option which this version lacks. Once the option is there, the check
 * has to be the one that the test asks for. */
static bool not_built_yet(clattn_status status)
{
    return status == CLATTN_UNSUPPORTED && strstr(clattn_message(), "not built yet");
}

static void must_accept(const clattn_problem *problem, clattn_operation operation, const char *what)
{
    const clattn_status status = clattn_problem_check(problem, operation);
    if (status != CLATTN_SUCCESS && !not_built_yet(status))
        fail_msg("%s %s: %s", clattn_operation_name(operation), what, clattn_message());
}

/* Refused as an invalid argument, with both words in the message. */
static void must_refuse(const clattn_problem *problem, clattn_operation operation, const char *argument,
                        const char *value)
{
    const clattn_status status = clattn_problem_check(problem, operation);
    if (not_built_yet(status))
        return;
    if (status != CLATTN_INVALID_ARGUMENT)
        fail_msg("%s of %s: %s, expected it to be refused", argument, value, clattn_status_name(status));
    if (!strstr(clattn_message(), argument) || !strstr(clattn_message(), value))
        fail_msg("'%s' names not both '%s' and '%s'", clattn_message(), argument, value);
}

/* ---- what is right ---- */

static void test_initialised_problems_are_right(void **state)
{
    (void)state;
    for (int operation = 0; operation < CLATTN_OPERATION_COUNT; operation++) {
        const clattn_problem problem = problem_of((clattn_operation)operation);
        must_accept(&problem, (clattn_operation)operation, "as initialised");
        assert_true(problem.scale == 1 / sqrt(16.0));
        assert_int_equal(problem.tangents, 1);
        assert_int_equal(problem.window_left, -1);
        assert_int_equal(problem.window_right, -1);
        assert_true(problem.softcap == 0 && problem.dropout == 0);
        assert_int_equal(problem.causal, CLATTN_CAUSAL_NONE);
        assert_null(problem.engine);
    }
}

static void test_initialised_presence_is_what_an_operation_cannot_do_without(void **state)
{
    (void)state;
    static const char *const present[] = {
        "q k v o lse ",
        "q k v o lse to tlse ",
        "q k v do o lse dq dk dv ",
        "q k v do o lse to tlse dq dk dv tdq tdk tdv ",
    };
    for (int operation = 0; operation < CLATTN_OPERATION_COUNT; operation++) {
        const clattn_problem problem = problem_of((clattn_operation)operation);
        char names[256] = "";
        for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
            if (problem.present[t])
                snprintf(names + strlen(names), sizeof names - strlen(names), "%s ",
                         clattn_tensor_name((clattn_tensor)t));
        assert_string_equal(names, present[operation]);
    }
}

/* Every size but the head dims may be 0. */
static void test_empty_problems_are_right(void **state)
{
    (void)state;
    static const clattn_sizes empty[] = {
        {0, 4, 2, 5, 7, 16, 12}, {2, 0, 2, 5, 7, 16, 12}, {2, 0, 0, 5, 7, 16, 12},
        {2, 4, 2, 0, 7, 16, 12}, {2, 4, 2, 5, 0, 16, 12}, {0, 0, 0, 0, 0, 1, 1},
    };
    for (int i = 0; i < COUNT_OF(empty); i++)
        for (int operation = 0; operation < CLATTN_OPERATION_COUNT; operation++) {
            clattn_problem problem;
            clattn_problem_init(&problem, (clattn_operation)operation, &empty[i]);
            must_accept(&problem, (clattn_operation)operation, "with a size of 0");
        }
}

static void test_right_values_are_accepted(void **state)
{
    (void)state;
    clattn_problem problem = problem_of(CLATTN_JVP);
    problem.scale = -3;
    must_accept(&problem, CLATTN_JVP, "scale -3");
    problem.scale = 0;
    must_accept(&problem, CLATTN_JVP, "scale 0");
    problem.softcap = 30;
    must_accept(&problem, CLATTN_JVP, "softcap 30");
    problem.window_left = 0;
    problem.window_right = INT64_MAX;
    must_accept(&problem, CLATTN_JVP, "window 0, 2^63 - 1");
    problem.causal = CLATTN_CAUSAL_BOTTOM_RIGHT;
    must_accept(&problem, CLATTN_JVP, "causal with a window");
    problem.dtype = problem.bias_dtype = CLATTN_F16;
    must_accept(&problem, CLATTN_JVP, "f32 outputs of f16 inputs");
    problem.present[CLATTN_O] = problem.present[CLATTN_LSE] = problem.present[CLATTN_TO] = false;
    must_accept(&problem, CLATTN_JVP, "one output only");
    problem.present[CLATTN_TK] = true;
    must_accept(&problem, CLATTN_JVP, "one tangent only");
    problem.strides[CLATTN_K] = (clattn_strides){0, 0, 0, 0, 0};
    must_accept(&problem, CLATTN_JVP, "an input broadcast along every axis");
    problem.strides[CLATTN_TLSE] = (clattn_strides){0, 0, 0, 0, 0};
    must_accept(&problem, CLATTN_JVP, "strides of an output that is always contiguous");
}

static void test_an_output_of_one_element_an_axis_may_have_stride_0(void **state)
{
    (void)state;
    clattn_problem problem;
    clattn_problem_init(&problem, CLATTN_FORWARD, &(clattn_sizes){1, 1, 1, 1, 7, 16, 12});
    problem.strides[CLATTN_O] = (clattn_strides){0, 0, 0, 0, 0};
    must_accept(&problem, CLATTN_FORWARD, "stride 0 over one element");
}

/* ---- wrong numbers ---- */

/* A field of the problem by its place: whole numbers, floating-point ones and enums. */
#define FIELD(name) #name, offsetof(clattn_problem, name)

static void test_wrong_whole_numbers_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t at;
        int64_t value;
    } wrong[] = {
        {FIELD(batch), -1},
        {FIELD(batch), INT64_MIN},
        {FIELD(batch), INT64_MAX},
        {FIELD(heads_q), -1},
        {FIELD(heads_q), INT64_MAX},
        {FIELD(heads_kv), -1},
        {FIELD(heads_kv), -2},
        {FIELD(heads_kv), INT64_MAX},
        {FIELD(queries), -1},
        {FIELD(queries), INT64_MAX},
        {FIELD(queries), INT64_C(1) << 40},
        {FIELD(keys), -1},
        {FIELD(keys), INT64_MAX},
        {FIELD(keys), INT64_C(1) << 40},
        {FIELD(head_dim), 0},
        {FIELD(head_dim), -1},
        {FIELD(head_dim), INT64_MAX},
        {FIELD(head_dim_v), 0},
        {FIELD(head_dim_v), -1},
        {FIELD(head_dim_v), INT64_MAX},
        {FIELD(tangents), 0},
        {FIELD(tangents), -1},
        {FIELD(tangents), INT64_MAX},
        {FIELD(window_left), -2},
        {FIELD(window_left), INT64_MIN},
        {FIELD(window_right), -2},
        {FIELD(window_right), INT64_MIN},
        {FIELD(logit_data_count), -5},
        {FIELD(logit_data_count), INT64_MIN},
        {FIELD(logit_data_count), INT64_MAX},
    };
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        clattn_problem problem = problem_of(CLATTN_JVP);
        memcpy((char *)&problem + wrong[i].at, &wrong[i].value, sizeof wrong[i].value);
        char value[32];
        snprintf(value, sizeof value, "%lld", (long long)wrong[i].value);
        must_refuse(&problem, CLATTN_JVP, wrong[i].name, value);
    }
}

static void test_wrong_floating_point_numbers_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t at;
        double value;
        const char *text;
    } wrong[] = {
        {FIELD(scale), NAN, "nan"},
        {FIELD(scale), INFINITY, "inf"},
        {FIELD(scale), -INFINITY, "-inf"},
        {FIELD(scale), 1e39, "1e+39"},
        {FIELD(softcap), NAN, "nan"},
        {FIELD(softcap), INFINITY, "inf"},
        {FIELD(softcap), -INFINITY, "-inf"},
        {FIELD(softcap), -1, "-1"},
        {FIELD(softcap), -1e-30, "-1e-30"},
        {FIELD(softcap), 1e39, "1e+39"},
        {FIELD(dropout), NAN, "nan"},
        {FIELD(dropout), -0.5, "-0.5"},
        {FIELD(dropout), 1, "1"},
        {FIELD(dropout), INFINITY, "inf"},
    };
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        clattn_problem problem = problem_of(CLATTN_FORWARD);
        memcpy((char *)&problem + wrong[i].at, &wrong[i].value, sizeof wrong[i].value);
        must_refuse(&problem, CLATTN_FORWARD, wrong[i].name, wrong[i].text);
    }
}

/* A finite number that is refused is told the range that it is out of. */
static void test_a_number_beyond_its_type_is_told_the_range(void **state)
{
    (void)state;
    clattn_problem problem = problem_of(CLATTN_FORWARD);
    problem.scale = -1e39;
    must_refuse(&problem, CLATTN_FORWARD, "3.40282e+38", "f32");
    problem.scale = 1;
    problem.softcap = 1e39;
    must_refuse(&problem, CLATTN_FORWARD, "3.40282e+38", "f32");
    problem.dtype = problem.out_dtype = problem.bias_dtype = CLATTN_F64;
    must_accept(&problem, CLATTN_FORWARD, "softcap 1e39 in f64");
    problem.softcap = INFINITY;
    must_refuse(&problem, CLATTN_FORWARD, "1.79769e+308", "f64");
}

static void test_wrong_enumerators_are_refused(void **state)
{
    (void)state;
    static const int wrong[] = {-1, 99, INT32_MAX};
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        char value[16];
        snprintf(value, sizeof value, "%d", wrong[i]);
        clattn_problem problem = problem_of(CLATTN_FORWARD);
        problem.dtype = (clattn_dtype)wrong[i];
        must_refuse(&problem, CLATTN_FORWARD, "dtype", value);
        problem = problem_of(CLATTN_FORWARD);
        problem.out_dtype = (clattn_dtype)wrong[i];
        must_refuse(&problem, CLATTN_FORWARD, "out_dtype", value);
        problem = problem_of(CLATTN_FORWARD);
        problem.bias_dtype = (clattn_dtype)wrong[i];
        must_refuse(&problem, CLATTN_FORWARD, "bias_dtype", value);
        problem = problem_of(CLATTN_FORWARD);
        problem.causal = (clattn_causal)wrong[i];
        must_refuse(&problem, CLATTN_FORWARD, "causal", value);
        problem = problem_of(CLATTN_FORWARD);
        must_refuse(&problem, (clattn_operation)wrong[i], "operation", value);
    }
    must_refuse(NULL, CLATTN_FORWARD, "problem", "NULL");
}

/* Outputs and bias are in the problem's dtype or f32. */
static void test_types_that_do_not_go_together_are_refused(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < CLATTN_DTYPE_COUNT; dtype++)
        for (int other = 0; other < CLATTN_DTYPE_COUNT; other++) {
            clattn_problem problem = problem_of(CLATTN_FORWARD);
            problem.present[CLATTN_BIAS] = true;
            problem.dtype = problem.bias_dtype = (clattn_dtype)dtype;
            problem.out_dtype = (clattn_dtype)other;
            const bool right = other == dtype || other == CLATTN_F32;
            if (right)
                must_accept(&problem, CLATTN_FORWARD, "types");
            else
                must_refuse(&problem, CLATTN_FORWARD, "out_dtype", clattn_dtype_name((clattn_dtype)dtype));
            problem.out_dtype = (clattn_dtype)dtype;
            problem.bias_dtype = (clattn_dtype)other;
            if (right)
                must_accept(&problem, CLATTN_FORWARD, "types");
            else
                must_refuse(&problem, CLATTN_FORWARD, "bias_dtype", clattn_dtype_name((clattn_dtype)dtype));
        }
}

static void test_query_heads_are_a_multiple_of_key_heads(void **state)
{
    (void)state;
    static const struct {
        int64_t heads_q, heads_kv;
        const char *value;
    } wrong[] = {{4, 3, "4"}, {3, 4, "3"}, {1, 2, "1"}, {5, 0, "5"}};
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        clattn_problem problem;
        clattn_problem_init(&problem, CLATTN_FORWARD,
                            &(clattn_sizes){1, wrong[i].heads_q, wrong[i].heads_kv, 5, 7, 16, 16});
        must_refuse(&problem, CLATTN_FORWARD, "heads_q", wrong[i].value);
        must_refuse(&problem, CLATTN_FORWARD, "heads_kv", wrong[i].value);
    }
}

/* ---- who may be there ---- */

static void test_what_an_operation_needs_is_asked_for(void **state)
{
    (void)state;
    static const clattn_tensor needed[] = {CLATTN_Q, CLATTN_K, CLATTN_V, CLATTN_DO};
    for (int operation = 0; operation < CLATTN_OPERATION_COUNT; operation++)
        for (int i = 0; i < COUNT_OF(needed); i++) {
            clattn_problem problem = problem_of((clattn_operation)operation);
            if (!problem.present[needed[i]])
                continue;
            problem.present[needed[i]] = false;
            must_refuse(&problem, (clattn_operation)operation, clattn_tensor_name(needed[i]),
                        clattn_operation_name((clattn_operation)operation));
        }
}

static void test_a_tensor_that_the_operation_does_not_use_is_refused(void **state)
{
    (void)state;
    static const struct {
        clattn_operation operation;
        clattn_tensor tensors[20];
        int count;
    } unused[] = {
        {CLATTN_FORWARD,
         {CLATTN_TQ, CLATTN_TK, CLATTN_TV, CLATTN_DO, CLATTN_DLSE, CLATTN_TDO, CLATTN_TDLSE, CLATTN_TO,
          CLATTN_TLSE, CLATTN_DQ, CLATTN_DK, CLATTN_DV, CLATTN_TDQ, CLATTN_TDK, CLATTN_TDV},
         15},
        {CLATTN_JVP,
         {CLATTN_DO, CLATTN_DLSE, CLATTN_TDO, CLATTN_TDLSE, CLATTN_DQ, CLATTN_DK, CLATTN_DV, CLATTN_TDQ,
          CLATTN_TDK, CLATTN_TDV},
         10},
        {CLATTN_VJP,
         {CLATTN_TQ, CLATTN_TK, CLATTN_TV, CLATTN_TDO, CLATTN_TDLSE, CLATTN_TO, CLATTN_TLSE, CLATTN_TDQ,
          CLATTN_TDK, CLATTN_TDV},
         10},
    };
    for (int i = 0; i < COUNT_OF(unused); i++)
        for (int n = 0; n < unused[i].count; n++) {
            clattn_problem problem = problem_of(unused[i].operation);
            problem.present[unused[i].tensors[n]] = true;
            must_refuse(&problem, unused[i].operation, clattn_tensor_name(unused[i].tensors[n]),
                        clattn_operation_name(unused[i].operation));
        }
}

/* Also gradients of a bias or sink that is not there, and one of a pair. */
static void test_one_without_the_other_is_refused(void **state)
{
    (void)state;
    static const struct {
        clattn_operation operation;
        clattn_tensor tensor, missing;
    } alone[] = {
        {CLATTN_JVP, CLATTN_TBIAS, CLATTN_BIAS},
        {CLATTN_JVP, CLATTN_TSINK, CLATTN_SINK},
        {CLATTN_HVP, CLATTN_TBIAS, CLATTN_BIAS},
        {CLATTN_VJP, CLATTN_DBIAS, CLATTN_BIAS},
        {CLATTN_VJP, CLATTN_DSINK, CLATTN_SINK},
        {CLATTN_HVP, CLATTN_TDBIAS, CLATTN_BIAS},
        {CLATTN_HVP, CLATTN_TDSINK, CLATTN_SINK},
        {CLATTN_FORWARD, CLATTN_Q_SEGMENTS, CLATTN_KV_SEGMENTS},
        {CLATTN_FORWARD, CLATTN_KV_SEGMENTS, CLATTN_Q_SEGMENTS},
        {CLATTN_FORWARD, CLATTN_CU_SEQLENS_Q, CLATTN_CU_SEQLENS_K},
        {CLATTN_FORWARD, CLATTN_CU_SEQLENS_K, CLATTN_CU_SEQLENS_Q},
    };
    for (int i = 0; i < COUNT_OF(alone); i++) {
        clattn_problem problem = problem_of(alone[i].operation);
        problem.present[alone[i].tensor] = true;
        must_refuse(&problem, alone[i].operation, clattn_tensor_name(alone[i].tensor),
                    clattn_tensor_name(alone[i].missing));
    }
}

static void test_two_ways_of_giving_lengths_exclude_each_other(void **state)
{
    (void)state;
    clattn_problem problem = problem_of(CLATTN_FORWARD);
    problem.present[CLATTN_KV_LENGTHS] = true;
    problem.present[CLATTN_CU_SEQLENS_Q] = problem.present[CLATTN_CU_SEQLENS_K] = true;
    must_refuse(&problem, CLATTN_FORWARD, "kv_lengths", "cu_seqlens");
}

static void test_blocks_of_a_block_mask_are_positive(void **state)
{
    (void)state;
    static const int64_t wrong[] = {0, -1, INT64_MIN};
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        char value[32];
        snprintf(value, sizeof value, "%lld", (long long)wrong[i]);
        clattn_problem problem = problem_of(CLATTN_FORWARD);
        problem.present[CLATTN_BLOCK_MASK] = true;
        problem.block_rows = wrong[i];
        must_refuse(&problem, CLATTN_FORWARD, "block_rows", value);
        problem.block_rows = 1;
        problem.block_columns = wrong[i];
        must_refuse(&problem, CLATTN_FORWARD, "block_columns", value);
    }
}

/* ---- strides ---- */

static int64_t *stride(clattn_problem *problem, clattn_tensor tensor, int axis)
{
    clattn_strides *strides = &problem->strides[tensor];
    int64_t *const axes[] = {&strides->tangent, &strides->batch, &strides->head, &strides->row,
                             &strides->column};
    return axes[axis];
}

static const char *const axis_names[] = {"tangent", "batch", "head", "row", "column"};

/* A JVP of three tangents with everything that has strides. */
static clattn_problem strided_problem(void)
{
    clattn_problem problem = problem_of(CLATTN_JVP);
    problem.tangents = 3;
    clattn_problem_set_contiguous(&problem, false);
    problem.present[CLATTN_TQ] = problem.present[CLATTN_TK] = problem.present[CLATTN_TV] = true;
    problem.present[CLATTN_BIAS] = problem.present[CLATTN_TBIAS] = problem.present[CLATTN_MASK] = true;
    return problem;
}

static const struct {
    clattn_tensor tensor;
    bool tangent, column; /* has these axes */
} strided[] = {
    {CLATTN_Q, false, false},   {CLATTN_K, false, false},   {CLATTN_V, false, false},
    {CLATTN_BIAS, false, true}, {CLATTN_MASK, false, true}, {CLATTN_TQ, true, false},
    {CLATTN_TK, true, false},   {CLATTN_TV, true, false},   {CLATTN_TBIAS, true, true},
    {CLATTN_O, false, false},   {CLATTN_TO, true, false},
};

static bool has_axis(int n, int axis)
{
    return axis == 0 ? strided[n].tangent : axis == 4 ? strided[n].column : true;
}

static void test_negative_and_overflowing_strides_are_refused(void **state)
{
    (void)state;
    static const int64_t wrong[] = {-1, -16, INT64_MIN, INT64_MAX, INT64_MAX / 2, INT64_C(1) << 60};
    for (int n = 0; n < COUNT_OF(strided); n++)
        for (int axis = 0; axis < 5; axis++)
            for (int i = 0; i < COUNT_OF(wrong) && has_axis(n, axis); i++) {
                clattn_problem problem = strided_problem();
                *stride(&problem, strided[n].tensor, axis) = wrong[i];
                must_refuse(&problem, CLATTN_JVP, clattn_tensor_name(strided[n].tensor), axis_names[axis]);
                char value[32];
                snprintf(value, sizeof value, "%lld", (long long)wrong[i]);
                must_refuse(&problem, CLATTN_JVP, clattn_tensor_name(strided[n].tensor), value);
            }
}

static void test_strides_that_a_tensor_has_no_axis_for_are_ignored(void **state)
{
    (void)state;
    for (int n = 0; n < COUNT_OF(strided); n++)
        for (int axis = 0; axis < 5; axis++) {
            if (has_axis(n, axis))
                continue;
            clattn_problem problem = strided_problem();
            *stride(&problem, strided[n].tensor, axis) = -1;
            must_accept(&problem, CLATTN_JVP, clattn_tensor_name(strided[n].tensor));
        }
}

/* Each stride alone is in range, together they are not. */
static void test_a_span_beyond_the_address_space_is_refused(void **state)
{
    (void)state;
    clattn_problem problem;
    clattn_problem_init(&problem, CLATTN_FORWARD, &(clattn_sizes){1, 1, 1, 1 << 20, 1 << 20, 16, 16});
    problem.strides[CLATTN_K].row = INT64_C(1) << 42;
    must_refuse(&problem, CLATTN_FORWARD, "k", "span");
}

static void test_sizes_whose_product_overflows_are_refused(void **state)
{
    (void)state;
    static const int64_t heads[] = {1 << 20, 1 << 23, (1 << 24) - 1};
    for (int i = 0; i < COUNT_OF(heads); i++) {
        clattn_problem problem;
        clattn_problem_init(&problem, CLATTN_FORWARD,
                            &(clattn_sizes){1 << 20, heads[i], heads[i], 1 << 27, 1 << 27, 1 << 12, 1 << 12});
        assert_int_equal(clattn_problem_check(&problem, CLATTN_FORWARD), CLATTN_INVALID_ARGUMENT);
    }
}

/* Inputs that are broadcast span nothing, but their rows are work and scratch all the same. */
static void test_more_rows_than_can_be_counted_are_refused(void **state)
{
    (void)state;
    static const struct {
        clattn_sizes sizes;
        const char *name; /* NULL: right */
    } cases[] = {
        {{1 << 24, 1 << 24, 1 << 24, 1 << 28, 1, 16, 16}, "queries"},
        {{1 << 24, 1 << 24, 1 << 24, 1 << 20, 1, 16, 16}, "queries"},
        {{1 << 24, 1 << 24, 1 << 24, 1, 1 << 28, 16, 16}, "queries"},
        {{1 << 10, 1 << 10, 1 << 10, 1, 1 << 28, 16, 16}, "keys"},
        {{1, 8, 1, 1 << 28, 1, 16, 16}, "queries"},
        {{1, 8, 8, 1, 1 << 28, 16, 16}, "keys"},
        {{1, 7, 7, 1 << 28, 1 << 28, 16, 16}, NULL},
        {{1 << 24, 0, 0, 1 << 28, 1 << 28, 16, 16}, NULL},
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        clattn_problem problem;
        clattn_problem_init(&problem, CLATTN_VJP, &cases[i].sizes);
        for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
            problem.strides[t] = (clattn_strides){0};
            problem.present[t] = problem.present[t] && t < CLATTN_O;
        }
        if (cases[i].name)
            must_refuse(&problem, CLATTN_VJP, cases[i].name, "2^31");
        else
            must_accept(&problem, CLATTN_VJP, "as many rows as can be counted");
    }
}

/* A packed batch has no rows of its own for each sequence. */
static void test_sequences_of_a_packed_batch_share_their_rows(void **state)
{
    (void)state;
    clattn_problem problem;
    clattn_problem_init(&problem, CLATTN_FORWARD, &(clattn_sizes){1 << 20, 4, 4, 1 << 20, 1 << 20, 16, 16});
    must_refuse(&problem, CLATTN_FORWARD, "queries", "2^31");
    problem.present[CLATTN_CU_SEQLENS_Q] = problem.present[CLATTN_CU_SEQLENS_K] = true;
    clattn_problem_set_contiguous(&problem, false);
    must_accept(&problem, CLATTN_FORWARD, "packed");
}

static void test_an_output_with_stride_0_over_several_elements_is_refused(void **state)
{
    (void)state;
    static const clattn_tensor outputs[] = {CLATTN_O, CLATTN_TO};
    for (int n = 0; n < COUNT_OF(outputs); n++)
        for (int axis = n ? 0 : 1; axis < 4; axis++) {
            clattn_problem problem = strided_problem();
            *stride(&problem, outputs[n], axis) = 0;
            must_refuse(&problem, CLATTN_JVP, clattn_tensor_name(outputs[n]), axis_names[axis]);
            must_refuse(&problem, CLATTN_JVP, clattn_tensor_name(outputs[n]), "stride 0");
        }
}

/* ---- shapes and sizes ---- */

/* B2 Hq4 Hkv2 M5 N7 D16 Dv12 T3, blocks of 2 x 3, f16 with f32 outputs: every axis and type is told from the
 * others. */
static clattn_problem shaped_problem(void)
{
    clattn_problem problem = problem_of(CLATTN_HVP);
    problem.dtype = problem.bias_dtype = CLATTN_F16;
    problem.tangents = 3;
    problem.block_rows = 2;
    problem.block_columns = 3;
    clattn_problem_set_contiguous(&problem, false);
    return problem;
}

static const struct {
    clattn_tensor tensor;
    int rank;
    int64_t shape[4];
    size_t element;
    int tangents;
} shapes[] = {
    {CLATTN_Q, 4, {2, 4, 5, 16}, 2, 1},    {CLATTN_K, 4, {2, 2, 7, 16}, 2, 1},
    {CLATTN_V, 4, {2, 2, 7, 12}, 2, 1},    {CLATTN_BIAS, 4, {2, 4, 5, 7}, 2, 1},
    {CLATTN_MASK, 4, {2, 4, 5, 7}, 1, 1},  {CLATTN_KV_LENGTHS, 1, {2}, 4, 1},
    {CLATTN_Q_SEGMENTS, 2, {2, 5}, 4, 1},  {CLATTN_KV_SEGMENTS, 2, {2, 7}, 4, 1},
    {CLATTN_CU_SEQLENS_Q, 1, {3}, 4, 1},   {CLATTN_CU_SEQLENS_K, 1, {3}, 4, 1},
    {CLATTN_ALIBI, 1, {4}, 4, 1},          {CLATTN_BLOCK_MASK, 4, {2, 4, 3, 3}, 1, 1},
    {CLATTN_SINK, 1, {4}, 4, 1},           {CLATTN_TQ, 4, {2, 4, 5, 16}, 2, 3},
    {CLATTN_TK, 4, {2, 2, 7, 16}, 2, 3},   {CLATTN_TV, 4, {2, 2, 7, 12}, 2, 3},
    {CLATTN_TBIAS, 4, {2, 4, 5, 7}, 2, 3}, {CLATTN_TSINK, 1, {4}, 4, 3},
    {CLATTN_DO, 4, {2, 4, 5, 12}, 2, 1},   {CLATTN_DLSE, 3, {2, 4, 5}, 4, 1},
    {CLATTN_TDO, 4, {2, 4, 5, 12}, 2, 3},  {CLATTN_TDLSE, 3, {2, 4, 5}, 4, 3},
    {CLATTN_O, 4, {2, 4, 5, 12}, 4, 1},    {CLATTN_LSE, 3, {2, 4, 5}, 4, 1},
    {CLATTN_LSE_LOW, 3, {2, 4, 5}, 4, 1},  {CLATTN_TO, 4, {2, 4, 5, 12}, 4, 3},
    {CLATTN_TLSE, 3, {2, 4, 5}, 4, 3},     {CLATTN_DQ, 4, {2, 4, 5, 16}, 4, 1},
    {CLATTN_DK, 4, {2, 2, 7, 16}, 4, 1},   {CLATTN_DV, 4, {2, 2, 7, 12}, 4, 1},
    {CLATTN_DBIAS, 4, {2, 4, 5, 7}, 4, 1}, {CLATTN_DSINK, 1, {4}, 4, 1},
    {CLATTN_TDQ, 4, {2, 4, 5, 16}, 4, 3},  {CLATTN_TDK, 4, {2, 2, 7, 16}, 4, 3},
    {CLATTN_TDV, 4, {2, 2, 7, 12}, 4, 3},  {CLATTN_TDBIAS, 4, {2, 4, 5, 7}, 4, 3},
    {CLATTN_TDSINK, 1, {4}, 4, 3},
};

static void test_every_tensor_has_its_shape_type_and_bytes(void **state)
{
    (void)state;
    for (int seq_major = 0; seq_major <= 1; seq_major++) {
        clattn_problem problem = shaped_problem();
        clattn_problem_set_contiguous(&problem, seq_major);
        for (int i = 0; i < COUNT_OF(shapes); i++) {
            int64_t shape[5];
            size_t elements = (size_t)shapes[i].tangents;
            const char *name = clattn_tensor_name(shapes[i].tensor);
            if (clattn_problem_shape(&problem, shapes[i].tensor, shape) != shapes[i].rank)
                fail_msg("%s: wrong number of axes", name);
            for (int axis = 0; axis < shapes[i].rank; axis++) {
                if (shape[axis] != shapes[i].shape[axis])
                    fail_msg("%s: axis %d is %lld", name, axis, (long long)shape[axis]);
                elements *= (size_t)shape[axis];
            }
            if (clattn_problem_element_size(&problem, shapes[i].tensor) != shapes[i].element)
                fail_msg("%s: wrong element size", name);
            if (clattn_problem_bytes(&problem, shapes[i].tensor) != elements * shapes[i].element)
                fail_msg("%s: %zu bytes", name, clattn_problem_bytes(&problem, shapes[i].tensor));
        }
    }
    assert_int_equal(COUNT_OF(shapes),
                     CLATTN_TENSOR_COUNT - 1); /* all but LOGIT_DATA, whose size is the caller's */
}

static void test_rows_of_sums_are_f64_in_f64(void **state)
{
    (void)state;
    clattn_problem problem = problem_of(CLATTN_HVP);
    problem.dtype = CLATTN_F64;
    static const clattn_tensor rows[] = {CLATTN_LSE, CLATTN_TLSE, CLATTN_DLSE, CLATTN_SINK, CLATTN_DBIAS};
    for (int i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(clattn_problem_element_size(&problem, rows[i]), 8);
    assert_int_equal(clattn_problem_element_size(&problem, CLATTN_Q), 8);
    assert_int_equal(clattn_problem_element_size(&problem, CLATTN_O), 4);
    assert_int_equal(clattn_problem_element_size(&problem, CLATTN_ALIBI), 4);
}

static void test_tensors_with_an_axis_of_size_0_need_no_bytes(void **state)
{
    (void)state;
    for (int axis = 0; axis < 4; axis++) {
        clattn_problem problem = shaped_problem();
        int64_t *const emptied[] = {&problem.batch, &problem.heads_q, &problem.queries, &problem.keys};
        *emptied[axis] = 0;
        clattn_problem_set_contiguous(&problem, false);
        for (int i = 0; i < COUNT_OF(shapes); i++) {
            int64_t shape[5];
            const int rank = clattn_problem_shape(&problem, shapes[i].tensor, shape);
            bool empty = false;
            for (int n = 0; n < rank; n++)
                empty = empty || shape[n] == 0;
            if ((clattn_problem_bytes(&problem, shapes[i].tensor) == 0) != empty)
                fail_msg("%s: %zu bytes", clattn_tensor_name(shapes[i].tensor),
                         clattn_problem_bytes(&problem, shapes[i].tensor));
        }
        assert_int_equal(clattn_problem_bytes(&problem, CLATTN_CU_SEQLENS_Q), axis == 0 ? 4 : 12);
    }
}

static void test_a_broadcast_axis_has_size_1(void **state)
{
    (void)state;
    static const clattn_tensor pairs[] = {CLATTN_BIAS, CLATTN_MASK};
    for (int i = 0; i < COUNT_OF(pairs); i++)
        for (unsigned broadcast = 0; broadcast < 16; broadcast++) {
            clattn_problem problem = shaped_problem();
            const int64_t full[4] = {2, 4, 5, 7};
            int64_t at = 1;
            size_t elements = 1;
            for (int axis = 3; axis >= 0; axis--) {
                const bool one = (broadcast >> axis & 1) != 0;
                *stride(&problem, pairs[i], axis + 1) = one ? 0 : at;
                at *= one ? 1 : full[axis];
                elements *= one ? 1 : (size_t)full[axis];
            }
            problem.strides[CLATTN_TBIAS] = problem.strides[CLATTN_BIAS];
            problem.strides[CLATTN_TBIAS].tangent = at;
            int64_t shape[5];
            assert_int_equal(clattn_problem_shape(&problem, pairs[i], shape), 4);
            for (int axis = 0; axis < 4; axis++)
                assert_int_equal(shape[axis], broadcast >> axis & 1 ? 1 : full[axis]);
            assert_int_equal(clattn_problem_bytes(&problem, pairs[i]),
                             elements * clattn_problem_element_size(&problem, pairs[i]));
            if (pairs[i] == CLATTN_MASK)
                continue;
            /* what belongs to a bias has its shape */
            assert_int_equal(clattn_problem_bytes(&problem, CLATTN_TBIAS), 3 * 2 * elements);
            assert_int_equal(clattn_problem_bytes(&problem, CLATTN_DBIAS), 4 * elements);
            assert_int_equal(clattn_problem_bytes(&problem, CLATTN_TDBIAS), 3 * 4 * elements);
        }
}

static void test_gaps_between_rows_count_but_not_behind_the_last(void **state)
{
    (void)state;
    clattn_problem problem = problem_of(CLATTN_FORWARD);
    /* packed QKV, [B,S,3,H,D] with 4 heads each: 192 elements a position */
    problem.strides[CLATTN_Q] = (clattn_strides){.batch = 5 * 192, .head = 16, .row = 192};
    assert_int_equal(clattn_problem_bytes(&problem, CLATTN_Q), 4 * (5 * 192 + 3 * 16 + 4 * 192 + 16));
    problem.strides[CLATTN_K] = (clattn_strides){0, 0, 0, 0, 0};
    assert_int_equal(clattn_problem_bytes(&problem, CLATTN_K), 4 * 16);
}

static void test_a_packed_batch_is_one_long_batch_element(void **state)
{
    (void)state;
    clattn_problem problem = problem_of(CLATTN_FORWARD);
    problem.present[CLATTN_CU_SEQLENS_Q] = problem.present[CLATTN_CU_SEQLENS_K] = true;
    clattn_problem_set_contiguous(&problem, true);
    static const clattn_tensor laid_out[] = {CLATTN_Q, CLATTN_K, CLATTN_O, CLATTN_LSE};
    for (int i = 0; i < COUNT_OF(laid_out); i++) {
        int64_t shape[5];
        clattn_problem_shape(&problem, laid_out[i], shape);
        assert_int_equal(shape[0], 1);
    }
    assert_int_equal(clattn_problem_bytes(&problem, CLATTN_CU_SEQLENS_Q), 4 * 3);
    assert_int_equal(clattn_problem_bytes(&problem, CLATTN_LSE), 4 * 4 * 5);
}

static void test_outputs_are_results_of_the_operation(void **state)
{
    (void)state;
    clattn_problem problem = problem_of(CLATTN_HVP);
    assert_true(clattn_problem_is_output(&problem, CLATTN_FORWARD, CLATTN_O));
    assert_true(clattn_problem_is_output(&problem, CLATTN_FORWARD, CLATTN_LSE_LOW));
    assert_false(clattn_problem_is_output(&problem, CLATTN_FORWARD, CLATTN_TO));
    assert_false(clattn_problem_is_output(&problem, CLATTN_FORWARD, CLATTN_Q));
    assert_true(clattn_problem_is_output(&problem, CLATTN_JVP, CLATTN_TLSE));
    assert_true(clattn_problem_is_output(&problem, CLATTN_VJP, CLATTN_O));
    assert_true(clattn_problem_is_output(&problem, CLATTN_VJP, CLATTN_DK));
    assert_false(clattn_problem_is_output(&problem, CLATTN_VJP, CLATTN_DO));
    assert_true(clattn_problem_is_output(&problem, CLATTN_HVP, CLATTN_TDBIAS));
    problem.forward_given = true;
    assert_false(clattn_problem_is_output(&problem, CLATTN_VJP, CLATTN_LSE));
    assert_false(clattn_problem_is_output(&problem, CLATTN_HVP, CLATTN_TO));
    assert_true(clattn_problem_is_output(&problem, CLATTN_HVP, CLATTN_DQ));
    assert_true(clattn_problem_is_output(&problem, CLATTN_FORWARD, CLATTN_O));
    assert_false(clattn_problem_is_output(&problem, CLATTN_HVP, CLATTN_TENSOR_COUNT));
    assert_false(clattn_problem_is_output(&problem, CLATTN_HVP, (clattn_tensor)-1));
}

static void test_names_are_the_enumerators_in_lower_case(void **state)
{
    (void)state;
    assert_string_equal(clattn_tensor_name(CLATTN_DO), "do");
    assert_string_equal(clattn_tensor_name(CLATTN_KV_LENGTHS), "kv_lengths");
    assert_string_equal(clattn_tensor_name(CLATTN_TDBIAS), "tdbias");
    assert_null(clattn_tensor_name(CLATTN_TENSOR_COUNT));
    assert_null(clattn_tensor_name((clattn_tensor)-1));
    assert_string_equal(clattn_operation_name(CLATTN_HVP), "hvp");
    assert_null(clattn_operation_name(CLATTN_OPERATION_COUNT));
    assert_string_equal(clattn_dtype_name(CLATTN_BF16), "bf16");
    assert_null(clattn_dtype_name((clattn_dtype)-1));
    assert_string_equal(clattn_status_name(CLATTN_INVALID_ARGUMENT), "invalid argument");
    assert_non_null(clattn_status_name((clattn_status)-99));
}

/* ---- arguments of functions that have no status ---- */

static void test_null_is_answered_with_nothing(void **state)
{
    (void)state;
    int64_t shape[5];
    const clattn_problem problem = problem_of(CLATTN_FORWARD);
    clattn_problem_init(NULL, CLATTN_FORWARD, &sizes);
    clattn_problem_set_contiguous(NULL, false);
    assert_int_equal(clattn_problem_shape(NULL, CLATTN_Q, shape), 0);
    assert_int_equal(clattn_problem_shape(&problem, CLATTN_Q, NULL), 0);
    assert_int_equal(clattn_problem_element_size(NULL, CLATTN_Q), 0);
    assert_int_equal(clattn_problem_bytes(NULL, CLATTN_Q), 0);
    assert_false(clattn_problem_is_output(NULL, CLATTN_FORWARD, CLATTN_O));
    assert_null(clattn_context_cl(NULL));
    assert_null(clattn_context_device(NULL));
    assert_int_equal(clattn_context_programs_built(NULL), 0);
    clattn_context_release(NULL);
}

static void test_values_that_are_no_tensor_have_no_shape_and_no_bytes(void **state)
{
    (void)state;
    static const int wrong[] = {-1, 99, CLATTN_TENSOR_COUNT, INT32_MAX, INT32_MIN};
    const clattn_problem problem = problem_of(CLATTN_FORWARD);
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        int64_t shape[5];
        assert_int_equal(clattn_problem_shape(&problem, (clattn_tensor)wrong[i], shape), 0);
        assert_int_equal(clattn_problem_element_size(&problem, (clattn_tensor)wrong[i]), 0);
        assert_int_equal(clattn_problem_bytes(&problem, (clattn_tensor)wrong[i]), 0);
        assert_false(clattn_problem_is_output(&problem, CLATTN_FORWARD, (clattn_tensor)wrong[i]));
    }
}

static void test_values_that_are_no_operation_make_no_problem(void **state)
{
    (void)state;
    static const int wrong[] = {-1, 99, CLATTN_OPERATION_COUNT, INT32_MAX, INT32_MIN};
    const clattn_problem right = problem_of(CLATTN_FORWARD);
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        clattn_problem problem = problem_of(CLATTN_FORWARD);
        clattn_problem_init(&problem, (clattn_operation)wrong[i], &sizes);
        assert_int_equal(clattn_problem_check(&problem, CLATTN_FORWARD), CLATTN_INVALID_ARGUMENT);
        assert_false(clattn_problem_is_output(&right, (clattn_operation)wrong[i], CLATTN_O));
    }
    clattn_problem problem = problem_of(CLATTN_FORWARD);
    clattn_problem_init(&problem, CLATTN_FORWARD, NULL);
    assert_int_equal(clattn_problem_check(&problem, CLATTN_FORWARD), CLATTN_INVALID_ARGUMENT);
}

/* Sizes may be anything until they are checked; what a sanitizer sees here is a failure too. */
static void test_sizes_that_cannot_be_are_laid_out_without_overflow(void **state)
{
    (void)state;
    static const int64_t wrong[] = {INT64_MAX, INT64_MAX - 1, INT64_MIN, -1};
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        const int64_t n = wrong[i];
        clattn_problem problem;
        clattn_problem_init(&problem, CLATTN_HVP, &(clattn_sizes){n, n, n, n, n, n, n});
        for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
            problem.present[t] = true;
        problem.tangents = problem.logit_data_count = n;
        problem.block_rows = problem.block_columns = 64;
        clattn_problem_set_contiguous(&problem, true);
        for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
            int64_t shape[5];
            assert_true(clattn_problem_shape(&problem, (clattn_tensor)t, shape) > 0);
            clattn_strides *strides = &problem.strides[t];
            assert_true(strides->batch > 0 && strides->head > 0 && strides->row > 0 && strides->column > 0);
            const size_t bytes = clattn_problem_bytes(&problem, (clattn_tensor)t);
            if (n < 0 ? bytes != 0 && t != CLATTN_CU_SEQLENS_Q && t != CLATTN_CU_SEQLENS_K
                      : bytes < SIZE_MAX / 2)
                fail_msg("%s of sizes %lld: %zu bytes", clattn_tensor_name((clattn_tensor)t), (long long)n,
                         bytes);
        }
        assert_int_equal(clattn_problem_check(&problem, CLATTN_HVP), CLATTN_INVALID_ARGUMENT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_initialised_problems_are_right),
        cmocka_unit_test(test_initialised_presence_is_what_an_operation_cannot_do_without),
        cmocka_unit_test(test_empty_problems_are_right),
        cmocka_unit_test(test_right_values_are_accepted),
        cmocka_unit_test(test_an_output_of_one_element_an_axis_may_have_stride_0),
        cmocka_unit_test(test_wrong_whole_numbers_are_refused),
        cmocka_unit_test(test_wrong_floating_point_numbers_are_refused),
        cmocka_unit_test(test_a_number_beyond_its_type_is_told_the_range),
        cmocka_unit_test(test_wrong_enumerators_are_refused),
        cmocka_unit_test(test_types_that_do_not_go_together_are_refused),
        cmocka_unit_test(test_query_heads_are_a_multiple_of_key_heads),
        cmocka_unit_test(test_what_an_operation_needs_is_asked_for),
        cmocka_unit_test(test_a_tensor_that_the_operation_does_not_use_is_refused),
        cmocka_unit_test(test_one_without_the_other_is_refused),
        cmocka_unit_test(test_two_ways_of_giving_lengths_exclude_each_other),
        cmocka_unit_test(test_blocks_of_a_block_mask_are_positive),
        cmocka_unit_test(test_negative_and_overflowing_strides_are_refused),
        cmocka_unit_test(test_strides_that_a_tensor_has_no_axis_for_are_ignored),
        cmocka_unit_test(test_a_span_beyond_the_address_space_is_refused),
        cmocka_unit_test(test_sizes_whose_product_overflows_are_refused),
        cmocka_unit_test(test_more_rows_than_can_be_counted_are_refused),
        cmocka_unit_test(test_sequences_of_a_packed_batch_share_their_rows),
        cmocka_unit_test(test_an_output_with_stride_0_over_several_elements_is_refused),
        cmocka_unit_test(test_every_tensor_has_its_shape_type_and_bytes),
        cmocka_unit_test(test_rows_of_sums_are_f64_in_f64),
        cmocka_unit_test(test_tensors_with_an_axis_of_size_0_need_no_bytes),
        cmocka_unit_test(test_a_broadcast_axis_has_size_1),
        cmocka_unit_test(test_gaps_between_rows_count_but_not_behind_the_last),
        cmocka_unit_test(test_a_packed_batch_is_one_long_batch_element),
        cmocka_unit_test(test_outputs_are_results_of_the_operation),
        cmocka_unit_test(test_names_are_the_enumerators_in_lower_case),
        cmocka_unit_test(test_null_is_answered_with_nothing),
        cmocka_unit_test(test_values_that_are_no_tensor_have_no_shape_and_no_bytes),
        cmocka_unit_test(test_values_that_are_no_operation_make_no_problem),
        cmocka_unit_test(test_sizes_that_cannot_be_are_laid_out_without_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
