/*
 * What the quadratic method does between its matrix products (bench_method_math.c):
 * one work-group a row of a matrix, WIDTH work-items in it. Matrices are f32;
 * -DELEMENT=... says how the problem stores its tensors.
 */
#define F32 0
#define F16 1
#define BF16 2

#if ELEMENT == F32
typedef float element;
#else
typedef ushort element;
#endif

static float value_of(__global const element *array, size_t i)
{
#if ELEMENT == F32
    return array[i];
#elif ELEMENT == F16
    return vload_half(i, (__global const half *)array);
#else
    return as_float((uint)array[i] << 16);
#endif
}

__kernel void widen(__global const element *from, __global float *to)
{
    to[get_global_id(0)] = value_of(from, get_global_id(0));
}

#if ELEMENT == F32
static void store(float value, size_t i, __global element *to) { to[i] = value; }
#elif ELEMENT == F16
static void store(float value, size_t i, __global element *to)
{
    vstore_half_rte(value, i, (__global half *)to);
}
#else
static void store(float value, size_t i, __global element *to)
{
    const uint bits = as_uint(value);
    to[i] = isnan(value) ? 0x7fc0 : (ushort)((bits + 0x7fff + (bits >> 16 & 1)) >> 16); /* to nearest even */
}
#endif

__kernel void narrow(__global const float *from, __global element *to)
{
    store(from[get_global_id(0)], get_global_id(0), to);
}

/* The sum or the largest of the work-items' values, given to each. */
static float reduce(__local float *scratch, float value, bool sum)
{
    const int item = get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    scratch[item] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_width = WIDTH / 2; half_width > 0; half_width /= 2) {
        if (item < half_width) {
            const float other = scratch[item + half_width];
            scratch[item] = sum ? scratch[item] + other : fmax(scratch[item], other);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return scratch[0];
}

#define FOR_EACH_COLUMN(j, n) for (int j = get_local_id(0); j < (n); j += WIDTH)

/* weights = softmax(masked scores); a row that attends to nothing is 0. mask and bias are [B,H,N,N] or, if shared,
 * [N,N], or NULL. */
__kernel void softmax_rows(__global const float *scores, __global float *weights, __global const uchar *mask,
                           __global const element *bias, int n, int causal, int shared)
{
    __local float scratch[WIDTH];
    const size_t row = get_group_id(0), at = row * n;
    const int i = row % n;
    const size_t mask_at = shared ? (size_t)i * n : at;
    float top = -INFINITY, sum = 0;
    FOR_EACH_COLUMN(j, n)
    {
        const bool attends = (!causal || j <= i) && (!mask || mask[mask_at + j]);
        const float logit = scores[at + j] + (bias ? value_of(bias, mask_at + j) : 0);
        weights[at + j] = attends ? logit : -INFINITY;
        top = fmax(top, weights[at + j]);
    }
    top = reduce(scratch, top, false);
    top = top == -INFINITY ? 0 : top;
    FOR_EACH_COLUMN(j, n)
    {
        weights[at + j] = exp(weights[at + j] - top);
        sum += weights[at + j];
    }
    sum = reduce(scratch, sum, true);
    FOR_EACH_COLUMN(j, n)
    weights[at + j] = sum > 0 ? weights[at + j] / sum : 0;
}

/* to = weights o (x - <weights, x>) by rows: a tangent of the softmax, and its gradient. */
__kernel void centre_rows(__global const float *weights, __global const float *x, __global float *to, int n)
{
    __local float scratch[WIDTH];
    const size_t at = get_group_id(0) * n;
    float sum = 0;
    FOR_EACH_COLUMN(j, n)
    sum += weights[at + j] * x[at + j];
    sum = reduce(scratch, sum, true);
    FOR_EACH_COLUMN(j, n)
    to[at + j] = weights[at + j] * (x[at + j] - sum);
}

/* The tangent of centre_rows' result along tangents of both its inputs. */
__kernel void centre_rows_tangent(__global const float *weights, __global const float *x,
                                  __global const float *tweights, __global const float *tx,
                                  __global float *to, int n)
{
    __local float scratch[WIDTH];
    const size_t at = get_group_id(0) * n;
    float sum = 0, tsum = 0;
    FOR_EACH_COLUMN(j, n)
    {
        sum += weights[at + j] * x[at + j];
        tsum += tweights[at + j] * x[at + j] + weights[at + j] * tx[at + j];
    }
    sum = reduce(scratch, sum, true);
    tsum = reduce(scratch, tsum, true);
    FOR_EACH_COLUMN(j, n)
    to[at + j] = tweights[at + j] * (x[at + j] - sum) + weights[at + j] * (tx[at + j] - tsum);
}
