/*
 * Numbers of engines for NVIDIA GPUs, ahead of common/scalar_lanes.cl: the
 * exponential as one instruction of base 2, and what saves one beside it.
 */
/* The driver inlines by size; wgmma in a function that is called would be waited for one by one. */
#define inline inline __attribute__((always_inline))

#define LOG2_E 1.44269504f

static inline float exp2_approximately(const float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* The larger one, or the other where one is NaN. */
static inline float larger(const float x, const float y)
{
    float z;
    asm("max.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
}

/* x, but at least `least`; NaN stays NaN. */
static inline float raised(const float least, const float x)
{
    float z;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(least));
    return z;
}

/* x, but no more than `most`; NaN stays NaN. */
static inline float lowered(const float most, const float x)
{
    float z;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(most));
    return z;
}

static inline float multiply_add(const float x, const float y, const float z)
{
    float sum;
    asm("fma.rn.ftz.f32 %0, %1, %2, %3;" : "=f"(sum) : "f"(x), "f"(y), "f"(z));
    return sum;
}

#define EXP(x) exp2_approximately((x)*LOG2_E)
/* finite for the least base of all */
#define EXP_BASE(base) lowered(FLT_MAX, -LOG2_E *(base))
#define EXP_ABOVE(x, prepared_base) exp2_approximately(multiply_add(x, LOG2_E, prepared_base))
#define MAXIMUM(least, x) larger(least, x)
#define AT_LEAST(least, x) raised(least, x)
