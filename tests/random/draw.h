/*
 * Problems at random, over every option. Facts that are compiled into a
 * program are drawn first, then problems that differ in arguments only:
 * building is what costs time.
 */
#ifndef RANDOM_DRAW_H
#define RANDOM_DRAW_H

#include "recipe.h"

/* The n-th program of a seed: operation, types, head dims' classes, rules, tangents. Operations take turns. */
void draw_program(uint64_t seed, int64_t n, const char *engine, struct recipe *recipe);

/* The n-th problem of a seed, in a drawn program. */
void draw_arguments(uint64_t seed, int64_t n, struct recipe *recipe);

#endif /* RANDOM_DRAW_H */
