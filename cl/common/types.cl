/*
 * Numbers: the type that is computed in, and how elements of each type are
 * read and written. Knows nothing of attention.
 *
 * Options: IN_TYPE, OUT_TYPE, BIAS_TYPE (TYPE_* of params.h).
 */

#ifndef IN_TYPE
#define IN_TYPE TYPE_F32
#endif
#ifndef OUT_TYPE
#define OUT_TYPE IN_TYPE
#endif
#ifndef BIAS_TYPE
#define BIAS_TYPE TYPE_F32
#endif

#if IN_TYPE == TYPE_F64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double real;
#define REAL_MAX DBL_MAX
#else
typedef float real;
#define REAL_MAX FLT_MAX
#endif

/* a * b + c in one rounding where that is fast, else in two: the same choice everywhere, so that a logit has
 * the same bits in every kernel of an engine. */
#if IN_TYPE == TYPE_F64 || defined(FP_FAST_FMAF)
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

typedef ushort bf16; /* the upper half of a float */

static inline float bf16_to_float(const bf16 x) { return as_float((uint)x << 16); }

/* Nearest, ties to even; a NaN stays one. */
static inline bf16 bf16_from_float(const float x)
{
    const uint bits = as_uint(x);
    if (isnan(x))
        return (bf16)((bits >> 16) | 0x40u);
    return (bf16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/* half is a storage type only: vload_half and vstore_half need no cl_khr_fp16. */
#define LOAD_F32(p) ((real) * (p))
#define LOAD_F16(p) ((real)vload_half(0, p))
#define LOAD_BF16(p) ((real)bf16_to_float(*(p)))
#define LOAD_F64(p) (*(p))
#define STORE_F32(x, p) (*(p) = (float)(x))
#define STORE_F16(x, p) vstore_half_rte((float)(x), 0, p)
#define STORE_BF16(x, p) (*(p) = bf16_from_float((float)(x)))
#define STORE_F64(x, p) (*(p) = (x))

#if IN_TYPE == TYPE_F16
typedef half in_t;
#define LOAD_IN LOAD_F16
#elif IN_TYPE == TYPE_BF16
typedef bf16 in_t;
#define LOAD_IN LOAD_BF16
#elif IN_TYPE == TYPE_F64
typedef double in_t;
#define LOAD_IN LOAD_F64
#else
typedef float in_t;
#define LOAD_IN LOAD_F32
#endif

#if OUT_TYPE == TYPE_F16
typedef half out_t;
#define LOAD_OUT LOAD_F16
#define STORE_OUT STORE_F16
#elif OUT_TYPE == TYPE_BF16
typedef bf16 out_t;
#define LOAD_OUT LOAD_BF16
#define STORE_OUT STORE_BF16
#elif OUT_TYPE == TYPE_F64
typedef double out_t;
#define LOAD_OUT LOAD_F64
#define STORE_OUT STORE_F64
#else
typedef float out_t;
#define LOAD_OUT LOAD_F32
#define STORE_OUT STORE_F32
#endif

#if BIAS_TYPE == TYPE_F16
typedef half bias_t;
#define LOAD_BIAS LOAD_F16
#elif BIAS_TYPE == TYPE_BF16
typedef bf16 bias_t;
#define LOAD_BIAS LOAD_BF16
#elif BIAS_TYPE == TYPE_F64
typedef double bias_t;
#define LOAD_BIAS LOAD_F64
#else
typedef float bias_t;
#define LOAD_BIAS LOAD_F32
#endif
