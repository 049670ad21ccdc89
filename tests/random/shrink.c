/* Shrinking: one small change after the other, kept while the failure stays the same. */
#include "shrink.h"

#include <math.h>
#include <string.h>
#include <time.h>

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof *(array)))

/* ---- when two failures are the same ---- */

/* A message starts with the output's or argument's name and a colon, and ends with the row that is not finite, or
 * -1. */
static bool is_finite_failure(const char *message)
{
    const char *end = strrchr(message, ' ');
    return end && strcmp(end, " -1") == 0;
}

static bool fails_alike(const struct trial_report *a, const struct trial_report *b)
{
    const size_t name = strcspn(a->message, ":") + 1;
    return !a->passed && !b->passed && a->status == b->status && strncmp(a->message, b->message, name) == 0 &&
           is_finite_failure(a->message) == is_finite_failure(b->message);
}

/* ---- changes: false when there is nothing left to change ---- */

static bool lower(int64_t *value, int64_t to, int64_t least)
{
    if (to < least || to >= *value)
        return false;
    *value = to;
    return true;
}

static bool halve_queries(struct recipe *r) { return lower(&r->problem.queries, r->problem.queries / 2, 0); }
static bool halve_keys(struct recipe *r) { return lower(&r->problem.keys, r->problem.keys / 2, 0); }
static bool one_query_less(struct recipe *r) { return lower(&r->problem.queries, r->problem.queries - 1, 0); }
static bool one_key_less(struct recipe *r) { return lower(&r->problem.keys, r->problem.keys - 1, 0); }
static bool one_batch_less(struct recipe *r) { return lower(&r->problem.batch, r->problem.batch - 1, 0); }
static bool halve_head_dim(struct recipe *r)
{
    return lower(&r->problem.head_dim, r->problem.head_dim / 2, 1);
}
static bool halve_head_dim_v(struct recipe *r)
{
    return lower(&r->problem.head_dim_v, r->problem.head_dim_v / 2, 1);
}
static bool one_dim_less(struct recipe *r) { return lower(&r->problem.head_dim, r->problem.head_dim - 1, 1); }
static bool one_dim_v_less(struct recipe *r)
{
    return lower(&r->problem.head_dim_v, r->problem.head_dim_v - 1, 1);
}
static bool one_tangent_less(struct recipe *r)
{
    return lower(&r->problem.tangents, r->problem.tangents - 1, 1);
}
static bool no_row_gap(struct recipe *r) { return lower(&r->row_gap, 0, 0); }
static bool no_shared_heads(struct recipe *r) { return lower(&r->problem.heads_q, r->problem.heads_kv, 1); }

static bool one_head(struct recipe *r)
{
    const bool q = lower(&r->problem.heads_q, 1, 1), kv = lower(&r->problem.heads_kv, 1, 1);
    return q || kv;
}

static bool plain_layout(struct recipe *r)
{
    const bool changed = r->layout != LAYOUT_BHSD;
    r->layout = r->layout == LAYOUT_MIXED ? LAYOUT_BSHD : LAYOUT_BHSD;
    return changed;
}

/* Sets a number that is something else. */
static bool set_number(double *value, double to)
{
    const bool changed = *value != to;
    *value = to;
    return changed;
}

static bool plain_scale(struct recipe *r)
{
    return set_number(&r->problem.scale, 1 / sqrt((double)r->problem.head_dim));
}
static bool no_softcap(struct recipe *r) { return set_number(&r->problem.softcap, 0); }
static bool no_dropout(struct recipe *r) { return set_number(&r->problem.dropout, 0); }

static bool no_dropout_offset(struct recipe *r)
{
    const bool changed = r->problem.dropout_seed || r->problem.dropout_offset;
    r->problem.dropout_seed = r->problem.dropout_offset = 0;
    return changed;
}

static bool no_causal(struct recipe *r)
{
    const bool changed = r->problem.causal != CLATTN_CAUSAL_NONE;
    r->problem.causal = CLATTN_CAUSAL_NONE;
    return changed;
}

static bool no_window_left(struct recipe *r) { return lower(&r->problem.window_left, -1, -1); }
static bool no_window_right(struct recipe *r) { return lower(&r->problem.window_right, -1, -1); }

static bool no_logit(struct recipe *r)
{
    const bool changed = r->problem.logit != NULL;
    recipe_set_logit(r, false);
    return changed;
}

static bool plain_data(struct recipe *r)
{
    const bool changed = r->data != DATA_NORMAL;
    r->data = DATA_NORMAL;
    return changed;
}

static bool full_lengths(struct recipe *r)
{
    const bool changed = r->lengths != LENGTHS_FULL;
    r->lengths = LENGTHS_FULL;
    return changed;
}

static bool compute_forward(struct recipe *r)
{
    const bool changed = r->problem.forward_given;
    r->problem.forward_given = false;
    return changed;
}

static bool set_type(clattn_dtype *type, clattn_dtype to)
{
    const bool changed = *type != to;
    *type = to;
    return changed;
}

static bool out_in_f32(struct recipe *r) { return set_type(&r->problem.out_dtype, CLATTN_F32); }
static bool bias_in_f32(struct recipe *r) { return set_type(&r->problem.bias_dtype, CLATTN_F32); }

static bool all_in_f32(struct recipe *r)
{
    const bool out = out_in_f32(r), bias = bias_in_f32(r);
    return set_type(&r->problem.dtype, CLATTN_F32) || out || bias;
}

static bool no_broadcast(unsigned *axes)
{
    const bool changed = *axes != 0;
    *axes = 0;
    return changed;
}

static bool full_mask(struct recipe *r) { return no_broadcast(&r->mask_broadcast); }
static bool full_bias(struct recipe *r) { return no_broadcast(&r->bias_broadcast); }
static bool full_block_mask(struct recipe *r) { return no_broadcast(&r->block_broadcast); }

/* Those that need no new program first. */
static bool (*const changes[])(struct recipe *) = {
    halve_queries,    halve_keys,       one_batch_less,  one_head,        no_shared_heads,   no_row_gap,
    plain_layout,     plain_data,       no_causal,       no_window_left,  no_window_right,   plain_scale,
    full_lengths,     full_mask,        full_block_mask, compute_forward, one_query_less,    one_key_less,
    halve_head_dim,   halve_head_dim_v, one_dim_less,    one_dim_v_less,  no_dropout_offset, full_bias,
    no_logit,         no_softcap,       no_dropout,      all_in_f32,      out_in_f32,        bias_in_f32,
    one_tangent_less,
};

/* Tensors that a problem can do without, their companions going with them. */
static bool can_be_dropped(int tensor)
{
    static const clattn_tensor kept[] = {
        CLATTN_Q, CLATTN_K, CLATTN_V, CLATTN_DO, CLATTN_KV_SEGMENTS, CLATTN_CU_SEQLENS_K, CLATTN_LOGIT_DATA};
    for (int n = 0; n < COUNT_OF(kept); n++)
        if ((int)kept[n] == tensor)
            return false;
    return true;
}

/* Change n: those of the list, then each tensor dropped. */
static bool apply(struct recipe *recipe, int n)
{
    if (n < COUNT_OF(changes))
        return changes[n](recipe);
    const int tensor = n - COUNT_OF(changes);
    const bool given = recipe->problem.forward_given && tensor >= CLATTN_O && tensor <= CLATTN_TLSE;
    if (given || !can_be_dropped(tensor) || !recipe->problem.present[tensor])
        return false;
    recipe->problem.present[tensor] = false;
    return true;
}

/* ---- the search ---- */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* True if the change can be made and the failure stays. */
static bool try_change(clattn_context *context, int n, struct recipe *recipe, struct trial_report *report)
{
    struct recipe smaller = *recipe;
    struct trial_report found;
    if (!apply(&smaller, n))
        return false;
    recipe_repair(&smaller);
    recipe_run(context, &smaller, &found);
    if (!fails_alike(report, &found))
        return false;
    *recipe = smaller;
    *report = found;
    return true;
}

void shrink(clattn_context *context, struct recipe *recipe, struct trial_report *report, double seconds)
{
    const double end = now() + seconds;
    bool smaller = true;
    while (smaller) {
        smaller = false;
        for (int n = 0; n < COUNT_OF(changes) + CLATTN_TENSOR_COUNT; n++)
            while (now() < end && try_change(context, n, recipe, report))
                smaller = true;
    }
}
