/* The list of options. */
#include "options.h"

#include <math.h>

/* Groups of options that cannot be had together. */
enum { ALIGNMENT = 1, MASK = 2, BIAS = 3 };

static bool has_tangents(const struct trial *trial)
{
    return trial->operation == CLATTN_JVP || trial->operation == CLATTN_HVP;
}

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
static void add_bias(struct trial *trial, unsigned broadcast)
{
    trial->problem.present[CLATTN_BIAS] = true;
    trial->problem.present[CLATTN_TBIAS] = has_tangents(trial);
    trial_broadcast(trial, CLATTN_BIAS, broadcast);
}
static void set_bias(struct trial *trial)
{
    add_bias(trial, 0);
}
static void set_bias_of_keys(struct trial *trial)
{
    add_bias(trial, 1 | 4);
}
static void set_bias_of_queries(struct trial *trial)
{
    add_bias(trial, 2 | 8);
}
static void set_bias_of_heads(struct trial *trial)
{
    add_bias(trial, 1 | 4 | 8);
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
    {"scale", set_scale, NULL, 0},
    {"softcap", set_softcap, NULL, 0},
    {"causal top-left", set_top_left, NULL, ALIGNMENT},
    {"causal bottom-right", set_bottom_right, NULL, ALIGNMENT},
    {"window 9,4", set_window, NULL, 0},
    {"window 0,-1", set_window_left, NULL, 0},
    {"mask", set_mask, NULL, MASK},
    {"mask of keys", set_mask_of_keys, NULL, MASK},
    {"mask of queries", set_mask_of_queries, NULL, MASK},
    {"bias", set_bias, NULL, BIAS},
    {"bias of keys", set_bias_of_keys, NULL, BIAS},
    {"bias of queries", set_bias_of_queries, NULL, BIAS},
    {"bias of heads", set_bias_of_heads, NULL, BIAS},
    {"bias with -inf", set_bias, finish_masking_bias, BIAS},
    {"kv lengths", set_lengths, NULL, 0},
};
const int trial_option_count = (int)(sizeof trial_options / sizeof *trial_options);
