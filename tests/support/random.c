/* Random numbers: splitmix64, and normal ones by Box and Muller. */
#include "random.h"

#include <math.h>

static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

double random_uniform(uint64_t *state) { return (double)(next(state) >> 11) * 0x1p-53; }

double random_normal(uint64_t *state)
{
    const double radius = sqrt(-2 * log(1 - random_uniform(state)));
    return radius * cos(6.283185307179586 * random_uniform(state));
}
