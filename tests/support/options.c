/* The list of options. */
#include "options.h"

#include <math.h>

/* Groups of options that cannot be had together. */
enum { ALIGNMENT = 1, MASK = 2, BIAS = 3 };

static void set_scale(struct trial *trial)
{
    trial->problem.scale = -0.37;
}
static void set_softcap(struct trial *trial)
{
    trial->problem.softcap = 1.5;
}
static void set_top_left(struct trial *trial)
{
    trial->problem.causal = CLATTN_CAUSAL_TOP_LEFT;
}
static void set_bottom_right(struct trial *trial)
{
    trial->problem.causal = CLATTN_CAUSAL_BOTTOM_RIGHT;
}
static void set_window(struct trial *trial)
{
    trial->problem.window_left = 9;
    trial->problem.window_right = 4;
}
static void set_window_left(struct trial *trial)
{
    trial->problem.window_left = 0;
}
static void set_mask(struct trial *trial)
{
    trial->problem.present[CLATTN_MASK] = true;
    trial_broadcast(trial, CLATTN_MASK, 0);
}
static void set_mask_of_keys(struct trial *trial)
{
    trial->problem.present[CLATTN_MASK] = true;
    trial_broadcast(trial, CLATTN_MASK, 2 | 4);
}
static void set_mask_of_queries(struct trial *trial)
{
    trial->problem.present[CLATTN_MASK] = true;
    trial_broadcast(trial, CLATTN_MASK, 1 | 8);
}
static void set_bias(struct trial *trial)
{
    trial_add_bias(trial, 0);
}
static void set_bias_of_keys(struct trial *trial)
{
    trial_add_bias(trial, 1 | 4);
}
static void set_bias_of_queries(struct trial *trial)
{
    trial_add_bias(trial, 2 | 8);
}
static void set_bias_of_heads(struct trial *trial)
{
    trial_add_bias(trial, 1 | 4 | 8);
}
static void set_bias_of_all(struct trial *trial)
{
    trial_add_bias(trial, 1 | 2 | 4 | 8);
}
static void set_bias_of_batch_and_keys(struct trial *trial)
{
    trial_add_bias(trial, 2 | 4);
}
static void finish_masking_bias(struct trial *trial)
{
    const int64_t count = trial_count(trial, CLATTN_BIAS);
    for (int64_t n = 0; n < count; n += 3)
        trial->values[CLATTN_BIAS][n] = -INFINITY;
}
static void set_lengths(struct trial *trial)
{
    trial->problem.present[CLATTN_KV_LENGTHS] = true;
}

const struct trial_option trial_options[] = {
    {"scale", set_scale, NULL, 0, false},
    {"softcap", set_softcap, NULL, 0, true},
    {"causal top-left", set_top_left, NULL, ALIGNMENT, false},
    {"causal bottom-right", set_bottom_right, NULL, ALIGNMENT, false},
    {"window 9,4", set_window, NULL, 0, true},
    {"window 0,-1", set_window_left, NULL, 0, false},
    {"mask", set_mask, NULL, MASK, true},
    {"mask of keys", set_mask_of_keys, NULL, MASK, false},
    {"mask of queries", set_mask_of_queries, NULL, MASK, false},
    {"bias", set_bias, NULL, BIAS, false},
    {"bias of keys", set_bias_of_keys, NULL, BIAS, true},
    {"bias of queries", set_bias_of_queries, NULL, BIAS, false},
    {"bias of heads", set_bias_of_heads, NULL, BIAS, false},
    {"bias of batch and keys", set_bias_of_batch_and_keys, NULL, BIAS, false},
    {"bias of all", set_bias_of_all, NULL, BIAS, false},
    {"bias with -inf", set_bias, finish_masking_bias, BIAS, true},
    {"kv lengths", set_lengths, NULL, 0, true},
};
const int trial_option_count = (int)(sizeof trial_options / sizeof *trial_options);
