/*
 * A recipe: everything that makes one problem and its data, in plain values.
 * It can be drawn, copied, changed a little and printed, and makes the same
 * trial each time.
 */
#ifndef RANDOM_RECIPE_H
#define RANDOM_RECIPE_H

#include <stdint.h>
#include <stdio.h>

#include "support/trial.h"

/* Where the elements of [B,H,S,D] tensors lie. */
enum recipe_layout {
    LAYOUT_BHSD,
    LAYOUT_BSHD,
    LAYOUT_MIXED /* every other tensor is BSHD */
};

/* What is done to the random data of trial_fill. */
enum recipe_data {
    DATA_NORMAL,
    DATA_NAN,          /* in one element of `changed` */
    DATA_INFINITY,     /* in one element of `changed` */
    DATA_LARGE,        /* `changed` is 1024 times as large */
    DATA_NEAR_F16_MAX, /* `changed` is all near +-6e4 */
    DATA_LOW_ROWS,     /* rows of `changed`, the bias, are -1e4 throughout */
    DATA_MASKED_OUT,   /* elements of `changed`, a bias or a sink, are -inf */
    DATA_NOTHING_LEFT, /* `changed`, a mask, is false in whole rows */
    DATA_KIND_COUNT
};

/* How long the sequences of a packed batch, or the keys of each batch, are. */
enum recipe_lengths {
    LENGTHS_ANY,
    LENGTHS_FULL,      /* all rows belong to a sequence; all keys are there */
    LENGTHS_LATE,      /* the first sequence starts behind row 0 */
    LENGTHS_EMPTY_LAST /* the last one has no keys */
};

struct recipe {
    clattn_operation operation;
    clattn_problem problem; /* its strides follow from the rest */
    enum recipe_layout layout;
    int64_t row_gap;                                          /* elements between rows of [B,H,S,D] tensors */
    unsigned mask_broadcast, bias_broadcast, block_broadcast; /* axes, as trial_broadcast takes them */
    bool sorted_segments;                                     /* ids in runs, as packed documents have them */
    enum recipe_lengths lengths;
    enum recipe_data data;
    clattn_tensor changed; /* the tensor that `data` changes */
    uint64_t seed;         /* of the data */
};

/* A problem without options: what clattn_problem_init makes of it. */
void recipe_init(struct recipe *recipe, clattn_operation operation, const clattn_sizes *sizes);

/* Gives the problem a logit function (the one of the options list), or none. */
void recipe_set_logit(struct recipe *recipe, bool present);

/* Takes away the tensors whose companion is absent: tbias without bias, and so on. */
void recipe_repair(struct recipe *recipe);

/* To be freed by trial_free. */
void recipe_make(const struct recipe *recipe, struct trial *trial);

/* Makes it, computes it and has it judged. Where a problem is ill-conditioned the bar is what plain f32 makes of the
 * same data, and as much a matter of chance as our own error: such a problem fails if it does with most data. */
void recipe_run(clattn_context *context, const struct recipe *recipe, struct trial_report *report);

/* All of it in a few lines. */
void recipe_print(FILE *file, const struct recipe *recipe);

#endif /* RANDOM_RECIPE_H */
