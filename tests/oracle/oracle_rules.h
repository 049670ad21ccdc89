/*
 * What of the oracle needs no floating point: where a head lies in its arrays,
 * which pairs attend, which ones dropout keeps, which outputs there are. Knows
 * no precision and no derivative.
 */
#ifndef ORACLE_RULES_H
#define ORACLE_RULES_H

#include "oracle.h"

#include <stddef.h>

/* One query head of one batch or packed sequence. */
struct oracle_place {
    int64_t b, h;         /* batch or sequence, query head */
    int64_t m, n;         /* the sequence's own lengths: kv lengths and cu_seqlens applied */
    int64_t array_batch;  /* index on the batch axis of arrays: b, or 0 when packed */
    int64_t query0, key0; /* position of i = 0 and j = 0 on the sequence axes of arrays */
    int64_t q_row, k_row; /* the same, as row numbers in [B,Hq,M] and [B,Hkv,N] */
};

struct oracle_place oracle_place_of(const struct oracle_problem *problem, int64_t b, int64_t h);

/* Element (i, j) of this place in a [B|1,Hq|1,M|1,N|1] array. */
int64_t oracle_broadcast_index(const int64_t shape[4], const struct oracle_place *place, int64_t i,
                               int64_t j);

/* i + N - M: the key that query i stands on when both sequences end together. */
int64_t oracle_diagonal(const struct oracle_place *place, int64_t i);

/* Every rule but the values of logits: causal, window, masks, segments, a bias
 * of -inf. */
bool oracle_attends(const struct oracle_problem *problem, const struct oracle_place *place, int64_t i,
                    int64_t j);

/* Dropout's decision for one pair, a function of seed, offset and position. */
bool oracle_dropout_keeps(const struct oracle_problem *problem, const struct oracle_place *place, int64_t i,
                          int64_t j);

/* Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). */
void oracle_philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t words[4]);

/* Rows of [B,Hq,M] and of [B,Hkv,N] arrays, over the whole batch. */
int64_t oracle_query_rows(const struct oracle_problem *problem);
int64_t oracle_key_rows(const struct oracle_problem *problem);

/* Elements of one [B|1,Hq|1,M|1,N|1] array. */
int64_t oracle_elements(const int64_t shape[4]);

/* Zeroed memory for `count` elements, never NULL; ends the program when there is none. */
void *oracle_allocate(int64_t count, size_t element_size);

/* Count, row length and zeroed values of each output that there is; zeroes the others. */
void oracle_result_allocate(enum oracle_operation operation, const struct oracle_problem *problem,
                            struct oracle_result *result);

#endif /* ORACLE_RULES_H */
