/* The oracle in float: what a plain f32 evaluation makes of a problem. */
typedef float real;
#define ORACLE_COMPUTE oracle_compute_f32
#include "oracle_impl.h"
