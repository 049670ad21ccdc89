/* The oracle in double: the judge. */
typedef double real;
#define ORACLE_COMPUTE oracle_compute
#include "oracle_impl.h"
