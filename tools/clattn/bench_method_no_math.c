/*
 * Stands in for bench_method_math.c in a build without CLBlast.
 */
#include "bench_method.h"

const bench_method bench_method_math = {.name = "math"};
