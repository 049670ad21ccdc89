/* Defends numbers at the edge of their type (biases, logits, tangents, halves) and sizes of 0 and 1. */
#include "cases.h"

/* ---- huge finite biases are data ---- */

static void all_at_minus_1e4(struct trial *trial) { set_all(trial, CLATTN_BIAS, -1e4f); }
static void all_at_minus_1e30(struct trial *trial) { set_all(trial, CLATTN_BIAS, -1e30f); }
static void all_at_1e30(struct trial *trial) { set_all(trial, CLATTN_BIAS, 1e30f); }
static void some_rows_at_minus_1e30(struct trial *trial)
{
    for (int64_t i = 0; i < trial->problem.queries; i += 3)
        set_block(trial, CLATTN_BIAS, (int64_t[]){i, i + 1}, (int64_t[]){0, trial->problem.keys}, -1e30f);
}
static void some_keys_at_minus_1e30(struct trial *trial)
{
    for (int64_t j = 0; j < trial->problem.keys; j += 2)
        set_block(trial, CLATTN_BIAS, (int64_t[]){0, trial->problem.queries}, (int64_t[]){j, j + 1}, -1e30f);
}
/* Those that attend have the constant, the others are masked out. */
static void live_keys_at_minus_1e30(struct trial *trial)
{
    all_at_minus_1e30(trial);
    for (int64_t i = 0; i < trial->problem.queries; i++)
        set_block(trial, CLATTN_MASK, (int64_t[]){i, i + 1}, (int64_t[]){0, i}, 0);
}

static const struct hard_case biases[] = {
    {"bias -1e4", {2, 2, 1, 37, 45, 16, 16}, with_mask_and_bias, all_at_minus_1e4},
    {"bias -1e30", {2, 2, 1, 37, 45, 16, 16}, with_mask_and_bias, all_at_minus_1e30},
    {"bias 1e30", {2, 2, 1, 37, 45, 16, 16}, with_mask_and_bias, all_at_1e30},
    {"bias -1e30 in some rows", {2, 2, 1, 37, 45, 16, 16}, with_mask_and_bias, some_rows_at_minus_1e30},
    {"bias -1e30 at some keys", {2, 2, 1, 37, 45, 16, 16}, with_mask_and_bias, some_keys_at_minus_1e30},
    {"bias -1e30, most masked out", {2, 2, 1, 37, 45, 16, 16}, with_mask_and_bias, live_keys_at_minus_1e30},
};

static void test_a_finite_bias_is_data_however_negative(void **state)
{
    (void)state;
    run_cases(biases, COUNT_OF(biases), CLATTN_F32);
}
static void test_a_finite_bias_is_data_in_f16(void **state)
{
    (void)state;
    run_cases(biases, COUNT_OF(biases), CLATTN_F16);
}

/* ---- huge logits ---- */

/* Products of N(0,1) rows of 16 have a deviation of 4. */
static void logits_of_300(struct trial *trial) { trial->problem.scale = 75; }
static void logits_of_5e4(struct trial *trial) { trial->problem.scale = -12500; }
static void logits_of_5e4_under_a_cap(struct trial *trial)
{
    logits_of_5e4(trial);
    trial->problem.softcap = 30;
}

static const struct hard_case logits[] = {
    {"logits of 300", {2, 2, 1, 37, 45, 16, 16}, logits_of_300, NULL},
    {"logits of 5e4", {2, 2, 1, 37, 45, 16, 16}, logits_of_5e4, NULL},
    {"logits of 5e4 under a softcap", {2, 2, 1, 37, 45, 16, 16}, logits_of_5e4_under_a_cap, NULL},
};

static void test_huge_logits_are_as_right_as_f32_can_be(void **state)
{
    (void)state;
    run_cases(logits, COUNT_OF(logits), CLATTN_F32);
}
static void test_logits_beyond_f16_are_right_in_f16(void **state)
{
    (void)state;
    run_cases(logits, 2, CLATTN_F16);
}

/* ---- huge values and tangents ---- */

static void multiply(struct trial *trial, clattn_tensor tensor, double factor)
{
    const int64_t count = trial->values[tensor] ? trial_count(trial, tensor) : 0;
    for (int64_t n = 0; n < count; n++)
        trial->values[tensor][n] *= factor;
}

/* +-6e4 at random, or thereabouts: 65504 is the largest half. */
static void make_huge(struct trial *trial, clattn_tensor tensor)
{
    const int64_t count = trial->values[tensor] ? trial_count(trial, tensor) : 0;
    for (int64_t n = 0; n < count; n++)
        trial->values[tensor][n] = copysign(60000 - 32 * (double)(n % 7), trial->values[tensor][n]);
}

static void huge_rows(struct trial *trial)
{
    make_huge(trial, CLATTN_Q);
    make_huge(trial, CLATTN_K);
}
static void huge_values(struct trial *trial) { make_huge(trial, CLATTN_V); }
static void huge_everything(struct trial *trial)
{
    huge_rows(trial);
    huge_values(trial);
    make_huge(trial, CLATTN_TQ);
    make_huge(trial, CLATTN_TK);
    make_huge(trial, CLATTN_TV);
}
/* Gradients are then below what f16 holds in full. */
static void small_scale(struct trial *trial, double scale)
{
    trial->problem.scale = scale;
    if (trial->operation == CLATTN_VJP || trial->operation == CLATTN_HVP)
        trial->problem.out_dtype = CLATTN_F32;
}
/* Products of 3.6e9, and logits and their tangents of about one. */
static void scale_of_1e_minus_10(struct trial *trial) { small_scale(trial, 1e-10); }
/* S' of about 15: O' leaves the range of f16. */
static void scale_of_1e_minus_9(struct trial *trial) { small_scale(trial, 1e-9); }
static void tangents_of_1000(struct trial *trial)
{
    multiply(trial, CLATTN_TQ, 1000);
    multiply(trial, CLATTN_TK, 1000);
    multiply(trial, CLATTN_TV, 1000);
    multiply(trial, CLATTN_TBIAS, 1000);
}

static const struct hard_case values[] = {
    {"q and k of 6e4", {2, 2, 1, 37, 45, 16, 16}, scale_of_1e_minus_10, huge_rows},
    {"v of 6e4", {2, 2, 1, 37, 45, 16, 16}, NULL, huge_values},
    {"everything of 6e4", {2, 2, 1, 37, 45, 16, 16}, scale_of_1e_minus_10, huge_everything},
    {"everything of 6e4, tangents beyond f16",
     {2, 2, 1, 37, 45, 16, 16},
     scale_of_1e_minus_9,
     huge_everything},
};

static void test_products_beyond_f16_are_right_in_f16(void **state)
{
    (void)state;
    run_cases(values, COUNT_OF(values), CLATTN_F16);
}

static void test_tangents_of_1000_are_right(void **state)
{
    (void)state;
    static const struct hard_case hard[] = {
        {"tangents of 1000", {2, 2, 1, 37, 45, 16, 16}, NULL, tangents_of_1000},
        {"tangents of 1000 with a bias", {2, 2, 1, 37, 45, 16, 16}, with_mask_and_bias, tangents_of_1000},
    };
    run_cases(hard, COUNT_OF(hard), CLATTN_F32);
    run_cases(hard, 1, CLATTN_F16);
}

/* ---- sizes of 0 and 1 ---- */

static void test_sizes_of_0_and_1_are_right(void **state)
{
    (void)state;
    static const struct hard_case hard[] = {
        {"one query, many keys", {1, 2, 1, 1, 4097, 16, 16}, NULL, NULL},
        {"one key", {2, 2, 1, 37, 1, 16, 16}, NULL, NULL},
        {"one query, one key", {1, 1, 1, 1, 1, 1, 1}, NULL, NULL},
        {"no batch", {0, 2, 1, 5, 7, 16, 16}, NULL, NULL},
        {"no query heads", {2, 0, 1, 5, 7, 16, 16}, NULL, NULL},
        {"no heads", {2, 0, 0, 5, 7, 16, 16}, NULL, NULL},
        {"no queries", {2, 2, 1, 0, 7, 16, 16}, NULL, NULL},
        {"no keys", {2, 2, 1, 5, 0, 16, 16}, NULL, NULL},
        {"no keys, with mask and bias", {2, 2, 1, 5, 0, 16, 16}, with_mask_and_bias, NULL},
        {"nothing", {0, 0, 0, 0, 0, 1, 1}, NULL, NULL},
    };
    run_cases(hard, COUNT_OF(hard), CLATTN_F32);
}

/* Row 0 sees key 0 alone, whose logit is -inf by an infinity in the key: softmax of nothing but -inf is NaN. */
static void causal_with_mask_and_bias(struct trial *trial)
{
    with_mask_and_bias(trial);
    trial->problem.causal = CLATTN_CAUSAL_TOP_LEFT;
}
static void infinity_against_a_negative_query(struct trial *trial)
{
    set_all(trial, CLATTN_MASK, 1);
    *value_at(trial, CLATTN_K, 0, 0, 0, 0) = INFINITY;
    for (int64_t h = 0; h < trial->problem.heads_q; h++)
        *value_at(trial, CLATTN_Q, 0, h, 0, 0) = -1;
}

static const struct hard_case only_keys[] = {
    {"+inf in the only key of a row",
     {2, 2, 1, 37, 45, 16, 16},
     causal_with_mask_and_bias,
     infinity_against_a_negative_query},
};

static void test_an_infinity_in_the_only_key_of_a_row_shows(void **state)
{
    (void)state;
    run_cases(only_keys, COUNT_OF(only_keys), CLATTN_F32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_finite_bias_is_data_however_negative),
        cmocka_unit_test(test_a_finite_bias_is_data_in_f16),
        cmocka_unit_test(test_huge_logits_are_as_right_as_f32_can_be),
        cmocka_unit_test(test_logits_beyond_f16_are_right_in_f16),
        cmocka_unit_test(test_products_beyond_f16_are_right_in_f16),
        cmocka_unit_test(test_tangents_of_1000_are_right),
        cmocka_unit_test(test_sizes_of_0_and_1_are_right),
        cmocka_unit_test(test_an_infinity_in_the_only_key_of_a_row_shows),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
