/*
 * Lanes for engines that handle a vector of LANES logits at a time: the same
 * names as scalar_lanes.cl. Everything is by value and without branches on
 * lanes; what memory forces to be done lane by lane is a loop of LANES steps.
 */
#ifndef LANES
#define LANES 8 /* numbers a vector: 4, 8 or 16 */
#endif

#ifndef VECTORS
#define VECTORS 3 /* vectors of outer rows in a tile; score number e is that of inner row e / VECTORS */
#endif

#define UNROLL_FOR _Pragma("unroll") for
#define PASTE_TOKENS(a, b) a##b
#define PASTE(a, b) PASTE_TOKENS(a, b)
#define VECTOR_OF(type) PASTE(type, LANES)
#define CONVERT_TO(type) PASTE(convert_, VECTOR_OF(type))
#define OVERLOADED static inline __attribute__((overloadable))

typedef VECTOR_OF(uint) ulanes;
typedef VECTOR_OF(long) llanes;
typedef VECTOR_OF(int) int_lanes;
/* ilanes is what comparing lanes gives: as wide as the numbers. */
#if IN_TYPE == TYPE_F64
typedef VECTOR_OF(double) lanes;
typedef llanes ilanes;
#define CONVERT_REAL CONVERT_TO(double)
#define CONVERT_INDEX CONVERT_TO(long)
#else
typedef VECTOR_OF(float) lanes;
typedef int_lanes ilanes;
#define CONVERT_REAL CONVERT_TO(float)
#define CONVERT_INDEX CONVERT_TO(int)
#endif

#define ALL_LANES -1 /* true in every lane, as a comparison gives it */
#define EVERY_LANE(condition) (all(condition) != 0)

/* Conversions, of vectors and of scalars. */
OVERLOADED lanes to_lanes(const int x) { return (lanes)((real)x); }
OVERLOADED lanes to_lanes(const float x) { return (lanes)((real)x); }
OVERLOADED lanes to_lanes(const int_lanes x) { return CONVERT_REAL(x); }
OVERLOADED lanes to_lanes(const ulanes x) { return CONVERT_REAL(x); }
OVERLOADED lanes to_lanes(const lanes x) { return x; }
OVERLOADED ilanes to_ilanes(const int x) { return (ilanes)(x); }
OVERLOADED ilanes to_ilanes(const int_lanes x) { return CONVERT_INDEX(x); }
OVERLOADED ulanes to_ulanes(const uint x) { return (ulanes)(x); }
OVERLOADED ulanes to_ulanes(const int_lanes x) { return CONVERT_TO(uint)(x); }
OVERLOADED llanes to_llanes(const int x) { return (llanes)((long)x); }
OVERLOADED llanes to_llanes(const int_lanes x) { return CONVERT_TO(long)(x); }
OVERLOADED llanes to_llanes(const llanes x) { return x; }
#if IN_TYPE == TYPE_F64
typedef VECTOR_OF(ulong) ulong_lanes; /* what abs makes of ilanes */
OVERLOADED lanes to_lanes(const double x) { return (lanes)(x); }
OVERLOADED lanes to_lanes(const ulong_lanes x) { return CONVERT_REAL(x); }
OVERLOADED ilanes to_ilanes(const ilanes x) { return x; }
OVERLOADED ulanes to_ulanes(const ilanes x) { return CONVERT_TO(uint)(x); }
#endif
#define TO_LANES(x) to_lanes(x)
#define TO_ILANES(x) to_ilanes(x)
#define TO_ULANES(x) to_ulanes(x)
#define TO_LLANES(x) to_llanes(x)

#if LANES == 16
#define LANE_NUMBERS ((ilanes)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#elif LANES == 8
#define LANE_NUMBERS ((ilanes)(0, 1, 2, 3, 4, 5, 6, 7))
#else
#define LANE_NUMBERS ((ilanes)(0, 1, 2, 3))
#endif

/* The larger one, or `least` where x is NaN. */
static inline lanes MAXIMUM(const lanes least, const lanes x) { return x > least ? x : least; }
static inline lanes AT_LEAST(const lanes least, const lanes x) { return x < least ? least : x; }

/*
 * e^x, with 0 for x < -87.7 and infinity for x > 88.4: x = n ln 2 + r, a
 * minimax polynomial for e^r, and 2^n put together from n's bits. Relative
 * error below 2e-7 for |x| < 10 and 4e-7 elsewhere. NaN stays NaN: it is
 * carried by r, whatever its bits make of 2^n.
 */
#if IN_TYPE == TYPE_F64
static inline lanes EXP(const lanes x) { return exp(x); }
#else
static inline lanes EXP(const lanes x)
{
    const float shift = 12582912.0f + 127.0f; /* 1.5 2^23: a sum with it has n + 127 in its lowest bits */
    const lanes from_below = x < -88.0f ? (lanes)(-88.0f) : x;
    const lanes inside = from_below > 88.8f ? (lanes)(88.8f) : from_below;
    const lanes shifted = fma(inside, (lanes)(1.4426950408889634f), (lanes)(shift));
    const lanes n = shifted - shift;
    const lanes r = fma(n, (lanes)(-0.6931471805599453f), inside);
    lanes e = fma(r, (lanes)(8.290272206068039e-3f), (lanes)(4.189816117286682e-2f));
    e = fma(r, e, (lanes)(1.6667638719081879e-1f));
    e = fma(r, e, (lanes)(4.999914765357971e-1f));
    e = fma(r, e, (lanes)(9.999997019767761e-1f));
    e = fma(r, e, (lanes)(1.0f));
    const ilanes power = PASTE(as_, VECTOR_OF(int))(shifted) << 23;
    return e * PASTE(as_, VECTOR_OF(float))(power);
}
#endif

/* base[at] for each lane. */
#define DEFINE_GATHER(name, result, type, LOAD)                                                              \
    OVERLOADED result name(__global const type *base, const llanes at)                                       \
    {                                                                                                        \
        result values;                                                                                       \
        for (int i = 0; i < LANES; i++)                                                                      \
            values[i] = LOAD(base + at[i]);                                                                  \
        return values;                                                                                       \
    }                                                                                                        \
    /* the same for all lanes */                                                                             \
    OVERLOADED result name(__global const type *base, const long at) { return (result)(LOAD(base + at)); }
#define LOAD_PLAIN(p) (*(p))
DEFINE_GATHER(gather_real, lanes, real, LOAD_PLAIN)
DEFINE_GATHER(gather_byte, ilanes, uchar, LOAD_PLAIN)
DEFINE_GATHER(gather_int, ilanes, int, LOAD_PLAIN)

/* e^(x - base); nothing is gained by preparing a base. */
#define EXP_BASE(base) (base)
#define EXP_ABOVE(x, prepared_base) EXP((x) - (prepared_base))

/* What rules read for each pair is staged a tile at a time, because lane by lane it costs more than the arithmetic. */
#define STAGES_PAIRS 1

/* A tensor with a number for each pair of a sequence. The engine stages those of a tile, score by score; bytes by four
 * inner rows in a word, [inner row / 4][VECTORS]. */
typedef struct {
    __global const uchar *base;
    long row, column;
    const int_lanes *staged;
} byte_pairs;
typedef struct {
    __global const bias_t *base;
    long row, column;
    const lanes *staged;
} bias_pairs;

/* 0 where the byte is. */
static inline ilanes byte_of_pair(const byte_pairs *from, const ilanes query, const ilanes key, const int e)
{
    const int inner = e / VECTORS, slot = e % VECTORS;
    return CONVERT_INDEX(from->staged[inner / 4 * VECTORS + slot] & (int)(0xffu << inner % 4 * 8));
}
static inline lanes bias_of_pair(const bias_pairs *from, const ilanes query, const ilanes key, const int e)
{
    return from->staged[e];
}

/* Stores where `where` holds. */
static inline void scatter_real(__global real *base, const llanes at, const lanes value, const ilanes where)
{
    for (int i = 0; i < LANES; i++)
        if (where[i])
            base[at[i]] = value[i];
}

/* The caller's logit function, compiled into the program, for each lane. */
static inline void CALL_LOGIT(const lanes x, const int b, const int h, const ilanes query, const ilanes key,
                              __global const float *data, lanes *y, lanes *dy, lanes *ddy)
#if RULE_LOGIT
{
    for (int i = 0; i < LANES; i++) {
        real value, slope, curve;
        clattn_logit(x[i], b, h, (int)query[i], (int)key[i], data, &value, &slope, &curve);
        (*y)[i] = value;
        (*dy)[i] = slope;
        (*ddy)[i] = curve;
    }
}
#else
    ;
#endif

/* The mark of scalar_lanes.cl. */
#define MARK ((real)-0.0f)
static inline ilanes IS_MARKED(const lanes weight)
{
#if IN_TYPE == TYPE_F64
    return PASTE(as_, VECTOR_OF(long))(weight) == (long)0x8000000000000000L;
#else
    return PASTE(as_, VECTOR_OF(int))(weight) == (int)0x80000000;
#endif
}

/* ---- vectors of memory ---- */

/* LANES neighbours in memory. */
static inline lanes load_f32(__global const float *p) { return CONVERT_REAL(PASTE(vload, LANES)(0, p)); }
static inline lanes load_f16(__global const half *p) { return CONVERT_REAL(PASTE(vload_half, LANES)(0, p)); }
static inline lanes load_bf16(__global const bf16 *p)
{
    const ulanes bits = CONVERT_TO(uint)(PASTE(vload, LANES)(0, p)) << 16;
    return CONVERT_REAL(PASTE(as_, VECTOR_OF(float))(bits));
}
static inline void store_f32(const lanes x, __global float *p)
{
    PASTE(vstore, LANES)(CONVERT_TO(float)(x), 0, p);
}
static inline void store_f16(const lanes x, __global half *p)
{
    PASTE(PASTE(vstore_half, LANES), _rte)(CONVERT_TO(float)(x), 0, p);
}
static inline VECTOR_OF(ushort) bf16_of_lanes(const lanes x)
{
    const VECTOR_OF(float) f = CONVERT_TO(float)(x);
    const ulanes bits = PASTE(as_, VECTOR_OF(uint))(f);
    const ulanes nan = (bits >> 16) | 0x40u, rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return CONVERT_TO(ushort)(isnan(f) ? nan : rounded);
}
static inline void store_bf16(const lanes x, __global bf16 *p)
{
    PASTE(vstore, LANES)(bf16_of_lanes(x), 0, p);
}
#if IN_TYPE == TYPE_F64
static inline lanes load_f64(__global const double *p) { return PASTE(vload, LANES)(0, p); }
static inline void store_f64(const lanes x, __global double *p) { PASTE(vstore, LANES)(x, 0, p); }
#endif

/* (a0 b0 a1 b1 ..) of the lower and of the upper halves, element by element: compilers make one permutation of it. */
#if LANES == 16
#define INTERLEAVE_LOW(a, b)                                                                                 \
    (a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7)
#define INTERLEAVE_HIGH(a, b)                                                                                \
    (a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd, a.se, b.se, a.sf, b.sf)
#elif LANES == 8
#define INTERLEAVE_LOW(a, b) (a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3)
#define INTERLEAVE_HIGH(a, b) (a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7)
#else
#define INTERLEAVE_LOW(a, b) (a.s0, b.s0, a.s1, b.s1)
#define INTERLEAVE_HIGH(a, b) (a.s2, b.s2, a.s3, b.s3)
#endif

/*
 * x[i][j] becomes x[j][i]. Interleaving the rows of the first half with those
 * of the second rotates the bits of an element's number, row and column in
 * one, by one place; log2 LANES times exchanges row and column.
 */
#define DEFINE_TRANSPOSE(name, vector)                                                                       \
    static inline void name(vector x[LANES])                                                                 \
    {                                                                                                        \
        UNROLL_FOR (int done = 1; done < LANES; done *= 2) {                                                 \
            vector y[LANES];                                                                                 \
            UNROLL_FOR (int i = 0; i < LANES / 2; i++) {                                                     \
                y[2 * i] = (vector)INTERLEAVE_LOW(x[i], x[i + LANES / 2]);                                   \
                y[2 * i + 1] = (vector)INTERLEAVE_HIGH(x[i], x[i + LANES / 2]);                              \
            }                                                                                                \
            UNROLL_FOR (int i = 0; i < LANES; i++)                                                           \
                x[i] = y[i];                                                                                 \
        }                                                                                                    \
    }
DEFINE_TRANSPOSE(transpose, lanes)
DEFINE_TRANSPOSE(transpose_words, int_lanes)
