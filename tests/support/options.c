/* The list of options. */
#include "options.h"

#include <math.h>

/* Groups of options that cannot be had together. */
enum {
    ALIGNMENT = 1,
    MASK = 2,
    BIAS = 3,
    LENGTHS = 4
};

static void set_scale(struct trial *trial) { trial->problem.scale = -0.37; }
static void set_softcap(struct trial *trial) { trial->problem.softcap = 1.5; }
static void set_top_left(struct trial *trial) { trial->problem.causal = CLATTN_CAUSAL_TOP_LEFT; }
static void set_bottom_right(struct trial *trial) { trial->problem.causal = CLATTN_CAUSAL_BOTTOM_RIGHT; }
static void set_window(struct trial *trial)
{
    trial->problem.window_left = 9;
    trial->problem.window_right = 4;
}
static void set_window_left(struct trial *trial) { trial->problem.window_left = 0; }
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
static void set_bias(struct trial *trial) { trial_add_bias(trial, 0); }
static void set_bias_of_keys(struct trial *trial) { trial_add_bias(trial, 1 | 4); }
static void set_bias_of_queries(struct trial *trial) { trial_add_bias(trial, 2 | 8); }
static void set_bias_of_heads(struct trial *trial) { trial_add_bias(trial, 1 | 4 | 8); }
static void set_bias_of_all(struct trial *trial) { trial_add_bias(trial, 1 | 2 | 4 | 8); }
static void set_bias_of_batch_and_keys(struct trial *trial) { trial_add_bias(trial, 2 | 4); }
static void finish_masking_bias(struct trial *trial)
{
    const int64_t count = trial_count(trial, CLATTN_BIAS);
    for (int64_t n = 0; n < count; n += 3)
        trial->values[CLATTN_BIAS][n] = -INFINITY;
}
static void set_lengths(struct trial *trial) { trial->problem.present[CLATTN_KV_LENGTHS] = true; }
static void set_segments(struct trial *trial)
{
    trial->problem.present[CLATTN_Q_SEGMENTS] = trial->problem.present[CLATTN_KV_SEGMENTS] = true;
}
/* Runs of equal ids, as packed documents have them, so that whole tiles are apart. */
static void finish_sorted_segments(struct trial *trial)
{
    static const clattn_tensor tensors[] = {CLATTN_Q_SEGMENTS, CLATTN_KV_SEGMENTS};
    for (int i = 0; i < 2; i++) {
        const int64_t rows = tensors[i] == CLATTN_Q_SEGMENTS ? trial->problem.queries : trial->problem.keys;
        for (int64_t n = 0; n < trial_count(trial, tensors[i]); n++)
            trial->values[tensors[i]][n] = (double)(n % rows * 4 / rows);
    }
}
static void set_packed(struct trial *trial)
{
    trial->problem.batch = 3;
    trial->problem.present[CLATTN_CU_SEQLENS_Q] = trial->problem.present[CLATTN_CU_SEQLENS_K] = true;
}
static void set_alibi(struct trial *trial) { trial->problem.present[CLATTN_ALIBI] = true; }
static void add_block_mask(struct trial *trial, int64_t rows, int64_t columns)
{
    trial->problem.present[CLATTN_BLOCK_MASK] = true;
    trial->problem.block_rows = rows;
    trial->problem.block_columns = columns;
    trial_broadcast(trial, CLATTN_BLOCK_MASK, 1);
}
static void set_block_mask(struct trial *trial) { add_block_mask(trial, 8, 16); }
static void set_uneven_block_mask(struct trial *trial) { add_block_mask(trial, 7, 33); }
static void set_sink(struct trial *trial)
{
    bool *present = trial->problem.present;
    const bool tangents = present[CLATTN_TQ];
    const bool gradients = present[CLATTN_DO];
    present[CLATTN_SINK] = true;
    present[CLATTN_TSINK] = tangents;
    present[CLATTN_DSINK] = gradients;
    present[CLATTN_TDSINK] = gradients && tangents;
}
/* y = x + sin(x + 0.1 h + 0.2 j - 0.1 i) data[i % 3] */
static void wave(double x, int b, int h, int i, int j, const float *data, double *y, double *dy, double *ddy)
{
    (void)b;
    const double angle = x + 0.1f * (float)h + 0.2f * (float)j - 0.1f * (float)i, size = data[i % 3];
    *y = x + sin(angle) * size;
    *dy = 1 + cos(angle) * size;
    *ddy = -sin(angle) * size;
}
static void set_logit(struct trial *trial)
{
    trial->logit = wave;
    trial->problem.logit =
        "void clattn_logit(real x, int b, int h, int i, int j, __global const float *data,\n"
        "                  real *y, real *dy, real *ddy)\n"
        "{\n"
        "    const real angle = x + (real)(0.1f * h) + (real)(0.2f * j) - (real)(0.1f * i);\n"
        "    const real size = data[i % 3];\n"
        "    *y = x + sin(angle) * size;\n"
        "    *dy = 1 + cos(angle) * size;\n"
        "    *ddy = -sin(angle) * size;\n"
        "}\n";
    trial->problem.present[CLATTN_LOGIT_DATA] = true;
    trial->problem.logit_data_count = 3;
}
static void set_dropout(struct trial *trial)
{
    trial->problem.dropout = 0.3;
    trial->problem.dropout_seed = UINT64_C(0x123456789abcdef0);
    trial->problem.dropout_offset = UINT64_C(0xfffffffe00000007);
}

const struct trial_option trial_options[] = {
    {"scale", set_scale, NULL, 0, true, false, false},
    {"softcap", set_softcap, NULL, 0, true, true, true},
    {"causal top-left", set_top_left, NULL, ALIGNMENT, true, false, false},
    {"causal bottom-right", set_bottom_right, NULL, ALIGNMENT, true, false, false},
    {"window 9,4", set_window, NULL, 0, true, true, true},
    {"window 0,-1", set_window_left, NULL, 0, true, false, false},
    {"mask", set_mask, NULL, MASK, true, true, false},
    {"mask of keys", set_mask_of_keys, NULL, MASK, true, false, false},
    {"mask of queries", set_mask_of_queries, NULL, MASK, true, false, false},
    {"bias", set_bias, NULL, BIAS, true, false, false},
    {"bias of keys", set_bias_of_keys, NULL, BIAS, true, true, true},
    {"bias of queries", set_bias_of_queries, NULL, BIAS, true, false, false},
    {"bias of heads", set_bias_of_heads, NULL, BIAS, true, false, false},
    {"bias of batch and keys", set_bias_of_batch_and_keys, NULL, BIAS, true, false, false},
    {"bias of all", set_bias_of_all, NULL, BIAS, true, false, false},
    {"bias with -inf", set_bias, finish_masking_bias, BIAS, true, true, false},
    {"kv lengths", set_lengths, NULL, LENGTHS, true, true, true},
    {"packed", set_packed, NULL, LENGTHS, false, true, true},
    {"segments", set_segments, NULL, 0, false, false, false},
    {"sorted segments", set_segments, finish_sorted_segments, 0, false, true, false},
    {"alibi", set_alibi, NULL, 0, false, true, false},
    {"block mask", set_block_mask, NULL, 0, false, true, false},
    {"uneven block mask", set_uneven_block_mask, NULL, 0, false, false, false},
    {"sink", set_sink, NULL, 0, false, true, true},
    {"logit function", set_logit, NULL, 0, false, true, true},
    {"dropout", set_dropout, NULL, 0, false, true, false},
};
const int trial_option_count = (int)(sizeof trial_options / sizeof *trial_options);
