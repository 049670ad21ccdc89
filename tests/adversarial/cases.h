/* What the adversarial tests share: a hard problem in a few lines, for every operation and engine. */
#ifndef CASES_H
#define CASES_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "numeric/suite.h"

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof *(array)))

/* One kind of hardship. */
struct hard_case {
    const char *what;
    clattn_sizes sizes;
    void (*set)(struct trial *trial);   /* options, before the data is there; or NULL */
    void (*spoil)(struct trial *trial); /* changes the data; or NULL */
};

/* A bias, and a mask that lets everything through. Cases have both or none, so that they share programs. */
static inline void with_mask_and_bias(struct trial *trial)
{
    clattn_problem *p = &trial->problem;
    p->present[CLATTN_MASK] = p->present[CLATTN_BIAS] = true;
    p->present[CLATTN_TBIAS] = p->present[CLATTN_TQ];
}

/* Value of an input (of its first tangent) at a place; broadcast axes take any index. */
static inline double *value_at(struct trial *trial, clattn_tensor tensor, int64_t b, int64_t h, int64_t row,
                               int64_t column)
{
    int64_t shape[5];
    clattn_problem_shape(&trial->problem, tensor, shape);
    const int64_t n = ((b % shape[0] * shape[1] + h % shape[1]) * shape[2] + row % shape[2]) * shape[3];
    return &trial->values[tensor][n + column % shape[3]];
}

static inline void set_all(struct trial *trial, clattn_tensor tensor, double value)
{
    const int64_t count = trial->values[tensor] ? trial_count(trial, tensor) : 0;
    for (int64_t n = 0; n < count; n++)
        trial->values[tensor][n] = value;
}

/* The element in row i, column j of every batch and head, for rows and columns from..to - 1. */
static inline void set_block(struct trial *trial, clattn_tensor tensor, const int64_t rows[2],
                             const int64_t columns[2], double value)
{
    const clattn_problem *p = &trial->problem;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads_q; h++)
            for (int64_t i = rows[0]; i < rows[1]; i++)
                for (int64_t j = columns[0]; j < columns[1]; j++)
                    *value_at(trial, tensor, b, h, i, j) = value;
}

static inline bool is_built(const struct trial *trial)
{
    return clattn_problem_check(&trial->problem, trial->operation) != CLATTN_UNSUPPORTED;
}

/* One operation, with every tangent that it has. */
static inline void run_operation(const struct hard_case *hard, clattn_operation operation, clattn_dtype dtype)
{
    struct trial trial;
    trial_init(&trial, operation, &hard->sizes);
    clattn_problem *p = &trial.problem;
    p->dtype = p->out_dtype = dtype;
    p->bias_dtype = CLATTN_F32; /* holds -1e30 whatever the inputs are */
    const bool tangents = operation == CLATTN_JVP || operation == CLATTN_HVP;
    p->present[CLATTN_TQ] = p->present[CLATTN_TK] = p->present[CLATTN_TV] = tangents;
    if (hard->set)
        hard->set(&trial);
    if (!is_built(&trial))
        return;
    trial_fill(&trial, 5);
    if (p->present[CLATTN_MASK])
        set_all(&trial, CLATTN_MASK, 1);
    if (hard->spoil)
        hard->spoil(&trial);
    char what[160];
    snprintf(what, sizeof what, "%s %s, %s", clattn_operation_name(operation), clattn_dtype_name(dtype),
             hard->what);
    must_pass(&trial, what);
}

static inline void run_case(const struct hard_case *hard, clattn_dtype dtype)
{
    for (int operation = 0; operation < CLATTN_OPERATION_COUNT; operation++)
        run_operation(hard, (clattn_operation)operation, dtype);
}

static inline void run_cases(const struct hard_case *cases, int count, clattn_dtype dtype)
{
    for (int i = 0; i < count; i++)
        run_case(&cases[i], dtype);
}

#endif /* CASES_H */
