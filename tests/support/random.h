/*
 * Random numbers that are the same on every machine. The state may start as
 * anything; each call moves it on.
 */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>

/* In [0, 1). */
double random_uniform(uint64_t *state);

/* N(0,1). */
double random_normal(uint64_t *state);

#endif /* RANDOM_H */
