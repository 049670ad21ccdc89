/* Defends rows and tiles with nothing to attend to, and everyone else from what is masked out. */
#include "cases.h"

/* ---- rows with nothing to attend to ---- */

static void empty_rows_by_mask(struct trial *trial)
{
    for (int64_t i = 0; i < trial->problem.queries; i += 3)
        set_block(trial, CLATTN_MASK, (int64_t[]){i, i + 1}, (int64_t[]){0, trial->problem.keys}, 0);
}
static void empty_rows_by_bias(struct trial *trial)
{
    for (int64_t i = 0; i < trial->problem.queries; i += 3)
        set_block(trial, CLATTN_BIAS, (int64_t[]){i, i + 1}, (int64_t[]){0, trial->problem.keys}, -INFINITY);
}
static void empty_rows_by_both(struct trial *trial)
{
    const int64_t half = trial->problem.keys / 2;
    for (int64_t i = 0; i < trial->problem.queries; i += 3) {
        set_block(trial, CLATTN_MASK, (int64_t[]){i, i + 1}, (int64_t[]){0, half}, 0);
        set_block(trial, CLATTN_BIAS, (int64_t[]){i, i + 1}, (int64_t[]){half, trial->problem.keys},
                  -INFINITY);
    }
}
static void nothing_at_all_by_mask(struct trial *trial) { set_all(trial, CLATTN_MASK, 0); }
static void nothing_at_all_by_bias(struct trial *trial) { set_all(trial, CLATTN_BIAS, -INFINITY); }
static void only_the_last_key(struct trial *trial)
{
    set_block(trial, CLATTN_MASK, (int64_t[]){0, trial->problem.queries},
              (int64_t[]){0, trial->problem.keys - 1}, 0);
}
static void bottom_right(struct trial *trial) { trial->problem.causal = CLATTN_CAUSAL_BOTTOM_RIGHT; }
static void window_beside_the_keys(struct trial *trial)
{
    trial->problem.causal = CLATTN_CAUSAL_TOP_LEFT;
    trial->problem.window_left = 4;
}
static void with_lengths(struct trial *trial) { trial->problem.present[CLATTN_KV_LENGTHS] = true; }
static void with_lengths_and_bottom_right(struct trial *trial)
{
    with_lengths(trial);
    bottom_right(trial);
}
static void lengths_of_nothing_and_one(struct trial *trial)
{
    trial->values[CLATTN_KV_LENGTHS][0] = 0;
    trial->values[CLATTN_KV_LENGTHS][1] = 1;
}

static const struct hard_case empty_rows[] = {
    {"every third row masked out", {2, 2, 1, 37, 45, 16, 16}, with_mask_and_bias, empty_rows_by_mask},
    {"every third row at -inf", {2, 2, 1, 37, 45, 16, 16}, with_mask_and_bias, empty_rows_by_bias},
    {"every third row half masked, half -inf",
     {2, 2, 1, 37, 45, 16, 16},
     with_mask_and_bias,
     empty_rows_by_both},
    {"everything masked out", {2, 2, 1, 37, 45, 16, 16}, with_mask_and_bias, nothing_at_all_by_mask},
    {"everything at -inf", {2, 2, 1, 37, 45, 16, 16}, with_mask_and_bias, nothing_at_all_by_bias},
    {"only the last key", {1, 2, 1, 37, 140, 16, 16}, with_mask_and_bias, only_the_last_key},
    {"more queries than keys, bottom-right", {1, 2, 1, 140, 45, 16, 16}, bottom_right, NULL},
    {"window beyond the last key", {1, 2, 1, 140, 45, 16, 16}, window_beside_the_keys, NULL},
    {"lengths 0 and 1", {2, 2, 1, 37, 45, 16, 16}, with_lengths, lengths_of_nothing_and_one},
    {"lengths 0 and 1, bottom-right",
     {2, 2, 1, 37, 45, 16, 16},
     with_lengths_and_bottom_right,
     lengths_of_nothing_and_one},
};

static void test_rows_with_nothing_to_attend_to_are_zero_among_live_ones(void **state)
{
    (void)state;
    run_cases(empty_rows, COUNT_OF(empty_rows), CLATTN_F32);
}
static void test_rows_with_nothing_to_attend_to_are_zero_in_f16(void **state)
{
    (void)state;
    run_cases(empty_rows, 4, CLATTN_F16);
}

/* ---- tiles with nothing to attend to ---- */

/* Rows of 128 keys: as much as a tile of any engine holds. */
static void first_tile_masked_out(struct trial *trial)
{
    set_block(trial, CLATTN_MASK, (int64_t[]){0, trial->problem.queries}, (int64_t[]){0, 128}, 0);
}
static void first_tile_at_minus_infinity(struct trial *trial)
{
    set_block(trial, CLATTN_BIAS, (int64_t[]){0, trial->problem.queries}, (int64_t[]){0, 128}, -INFINITY);
}
static void first_tile_masked_out_for_some(struct trial *trial)
{
    set_block(trial, CLATTN_MASK, (int64_t[]){5, 20}, (int64_t[]){0, 128}, 0);
}
static void last_tile_masked_out(struct trial *trial)
{
    set_block(trial, CLATTN_MASK, (int64_t[]){0, trial->problem.queries}, (int64_t[]){16, 140}, 0);
}
static void first_tile_far_below(struct trial *trial)
{
    set_block(trial, CLATTN_BIAS, (int64_t[]){0, trial->problem.queries}, (int64_t[]){0, 128}, -3e38);
}
static void narrow_window(struct trial *trial)
{
    trial->problem.causal = CLATTN_CAUSAL_BOTTOM_RIGHT;
    trial->problem.window_left = 3;
}

static void test_tiles_with_nothing_to_attend_to_leave_no_trace(void **state)
{
    (void)state;
    static const struct hard_case tiles[] = {
        {"first tile masked out", {1, 2, 1, 37, 140, 16, 16}, with_mask_and_bias, first_tile_masked_out},
        {"first tile at -inf", {1, 2, 1, 37, 140, 16, 16}, with_mask_and_bias, first_tile_at_minus_infinity},
        {"first tile masked out for some rows",
         {1, 2, 1, 37, 140, 16, 16},
         with_mask_and_bias,
         first_tile_masked_out_for_some},
        {"all but the first keys masked out",
         {1, 2, 1, 37, 140, 16, 16},
         with_mask_and_bias,
         last_tile_masked_out},
        {"first tile at -3e38", {1, 2, 1, 37, 140, 16, 16}, with_mask_and_bias, first_tile_far_below},
        {"window of four keys", {1, 2, 1, 140, 300, 16, 16}, narrow_window, NULL},
    };
    run_cases(tiles, COUNT_OF(tiles), CLATTN_F32);
}

/* ---- NaN and infinities ---- */

enum {
    BAD_ROW = 9,
    BAD_KEY = 20,
    BAD_DIM = 3
};

/* One bad number in one tensor; and a way to keep it from some rows. */
static clattn_tensor bad_tensor;
static double bad_value;

static void put_bad_number(struct trial *trial)
{
    const bool pairs = bad_tensor == CLATTN_BIAS || bad_tensor == CLATTN_TBIAS;
    const bool query = pairs || bad_tensor == CLATTN_Q || bad_tensor == CLATTN_TQ;
    *value_at(trial, bad_tensor, 0, 0, query ? BAD_ROW : BAD_KEY, pairs ? BAD_KEY : BAD_DIM) = bad_value;
}
/* Rows that see the bad key: all, some, none. */
static void mask_bad_key_for_some(struct trial *trial)
{
    put_bad_number(trial);
    for (int64_t i = 1; i < trial->problem.queries; i += 2)
        set_block(trial, CLATTN_MASK, (int64_t[]){i, i + 1}, (int64_t[]){BAD_KEY, BAD_KEY + 1}, 0);
}
static void mask_bad_key_for_all(struct trial *trial)
{
    put_bad_number(trial);
    set_block(trial, CLATTN_MASK, (int64_t[]){0, trial->problem.queries}, (int64_t[]){BAD_KEY, BAD_KEY + 1},
              0);
}
/* The bias of those pairs is -inf, and no longer the bad number. */
static void bias_bad_key_out_for_some(struct trial *trial)
{
    put_bad_number(trial);
    for (int64_t i = 1; i < trial->problem.queries; i += 2)
        set_block(trial, CLATTN_BIAS, (int64_t[]){i, i + 1}, (int64_t[]){BAD_KEY, BAD_KEY + 1}, -INFINITY);
}
static void end_before_bad_key(struct trial *trial)
{
    put_bad_number(trial);
    trial->values[CLATTN_KV_LENGTHS][0] = BAD_KEY;
}
static void with_everything_and_lengths(struct trial *trial)
{
    with_mask_and_bias(trial);
    with_lengths(trial);
}
static void with_everything_and_top_left(struct trial *trial)
{
    with_mask_and_bias(trial);
    trial->problem.causal = CLATTN_CAUSAL_TOP_LEFT;
}
static void with_everything_and_window(struct trial *trial)
{
    with_mask_and_bias(trial);
    trial->problem.window_left = trial->problem.window_right = 6;
}

static const struct hard_case bad_numbers[] = {
    {"seen by all", {2, 2, 1, 37, 45, 16, 16}, with_mask_and_bias, put_bad_number},
    {"masked out for some", {2, 2, 1, 37, 45, 16, 16}, with_mask_and_bias, mask_bad_key_for_some},
    {"masked out for all", {2, 2, 1, 37, 45, 16, 16}, with_mask_and_bias, mask_bad_key_for_all},
    {"at -inf for some", {2, 2, 1, 37, 45, 16, 16}, with_mask_and_bias, bias_bad_key_out_for_some},
    {"hidden from some by causal", {2, 2, 1, 37, 45, 16, 16}, with_everything_and_top_left, put_bad_number},
    {"hidden from some by a window", {2, 2, 1, 37, 45, 16, 16}, with_everything_and_window, put_bad_number},
    {"beyond the length of one batch",
     {2, 2, 1, 37, 45, 16, 16},
     with_everything_and_lengths,
     end_before_bad_key},
};
/* The rules of position alone, in programs without others. */
static void with_window(struct trial *trial) { trial->problem.window_left = trial->problem.window_right = 6; }
static void with_top_left(struct trial *trial) { trial->problem.causal = CLATTN_CAUSAL_TOP_LEFT; }
static const struct hard_case bad_numbers_alone[] = {
    {"seen by all", {2, 2, 1, 37, 45, 16, 16}, NULL, put_bad_number},
    {"hidden from some by causal", {2, 2, 1, 37, 45, 16, 16}, with_top_left, put_bad_number},
    {"hidden from some by a window", {2, 2, 1, 37, 45, 16, 16}, with_window, put_bad_number},
    {"beyond the length of one batch", {2, 2, 1, 37, 45, 16, 16}, with_lengths, end_before_bad_key},
};

static const struct {
    clattn_tensor tensor;
    bool tangent, bias;
} spoilable[] = {
    {CLATTN_Q, false, false}, {CLATTN_K, false, false}, {CLATTN_V, false, false}, {CLATTN_BIAS, false, true},
    {CLATTN_TQ, true, false}, {CLATTN_TK, true, false}, {CLATTN_TV, true, false}, {CLATTN_TBIAS, true, true},
};

static void spoil_each_tensor(const struct hard_case *cases, int count, double bad, clattn_dtype dtype)
{
    bad_value = bad;
    for (int t = 0; t < COUNT_OF(spoilable); t++)
        for (int i = 0; i < count; i++)
            for (int operation = 0; operation < CLATTN_OPERATION_COUNT; operation++) {
                const bool tangents = operation == CLATTN_JVP || operation == CLATTN_HVP;
                if ((spoilable[t].tangent && !tangents) || (spoilable[t].bias && cases != bad_numbers))
                    continue;
                bad_tensor = spoilable[t].tensor;
                char what[160];
                snprintf(what, sizeof what, "%g in %s %s", bad, clattn_tensor_name(bad_tensor),
                         cases[i].what);
                struct hard_case named = cases[i];
                named.what = what;
                run_operation(&named, (clattn_operation)operation, dtype);
            }
}

static void test_nan_reaches_the_rows_that_see_it_and_no_other(void **state)
{
    (void)state;
    spoil_each_tensor(bad_numbers, COUNT_OF(bad_numbers), NAN, CLATTN_F32);
    spoil_each_tensor(bad_numbers_alone, COUNT_OF(bad_numbers_alone), NAN, CLATTN_F32);
}
static void test_infinity_reaches_the_rows_that_see_it_and_no_other(void **state)
{
    (void)state;
    spoil_each_tensor(bad_numbers, COUNT_OF(bad_numbers), INFINITY, CLATTN_F32);
    spoil_each_tensor(bad_numbers_alone, COUNT_OF(bad_numbers_alone), INFINITY, CLATTN_F32);
}
static void test_nan_and_infinity_stay_where_they_are_in_f16(void **state)
{
    (void)state;
    spoil_each_tensor(bad_numbers, COUNT_OF(bad_numbers), NAN, CLATTN_F16);
    spoil_each_tensor(bad_numbers, COUNT_OF(bad_numbers), INFINITY, CLATTN_F16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_with_nothing_to_attend_to_are_zero_among_live_ones),
        cmocka_unit_test(test_rows_with_nothing_to_attend_to_are_zero_in_f16),
        cmocka_unit_test(test_tiles_with_nothing_to_attend_to_leave_no_trace),
        cmocka_unit_test(test_nan_reaches_the_rows_that_see_it_and_no_other),
        cmocka_unit_test(test_infinity_reaches_the_rows_that_see_it_and_no_other),
        cmocka_unit_test(test_nan_and_infinity_stay_where_they_are_in_f16),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
