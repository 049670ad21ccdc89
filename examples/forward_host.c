/*
 * Arrays in, arrays out: the simplest call. Causal attention with grouped
 * heads, compared with three plain loops in double precision.
 */
#include <clattn/clattn.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    B = 2,   /* batches */
    HQ = 4,  /* query heads */
    HKV = 2, /* key/value heads, each shared by HQ / HKV query heads */
    M = 40,  /* queries */
    N = 50,  /* keys */
    D = 32,  /* head dim of queries and keys */
    DV = 24  /* head dim of values */
};

static float q[B][HQ][M][D], k[B][HKV][N][D], v[B][HKV][N][DV];
static float o[B][HQ][M][DV], lse[B][HQ][M];

/* Numbers in [-1, 1), the same in every run. */
static void fill(float *array, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        array[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
}

/* One row of O, with the keys that a causal mask aligned to the last key leaves: j <= i + N - M. */
static double expected_row(int b, int h, int i, double row[DV])
{
    const int g = h / (HQ / HKV);
    double weights[N], sum = 0;
    for (int d = 0; d < DV; d++)
        row[d] = 0;
    for (int j = 0; j <= i + N - M; j++) {
        double dot = 0;
        for (int d = 0; d < D; d++)
            dot += (double)q[b][h][i][d] * k[b][g][j][d];
        weights[j] = exp(dot / sqrt(D));
        sum += weights[j];
    }
    for (int j = 0; j <= i + N - M; j++)
        for (int d = 0; d < DV; d++)
            row[d] += weights[j] / sum * v[b][g][j][d];
    return log(sum);
}

/* The largest difference between the results and the loops above. */
static double largest_error(void)
{
    double largest = 0;
    for (int b = 0; b < B; b++)
        for (int h = 0; h < HQ; h++)
            for (int i = 0; i < M; i++) {
                double row[DV];
                largest = fmax(largest, fabs(lse[b][h][i] - expected_row(b, h, i, row)));
                for (int d = 0; d < DV; d++)
                    largest = fmax(largest, fabs(o[b][h][i][d] - row[d]));
            }
    return largest;
}

int main(void)
{
    fill(&q[0][0][0][0], sizeof q / sizeof(float), 1);
    fill(&k[0][0][0][0], sizeof k / sizeof(float), 2);
    fill(&v[0][0][0][0], sizeof v / sizeof(float), 3);

    /* NULL takes the first GPU, or else the first device. */
    clattn_context *context;
    clattn_status status = clattn_context_open(NULL, &context);
    if (status != CLATTN_SUCCESS) {
        fprintf(stderr, "%s: %s\n", clattn_status_name(status), clattn_message());
        return EXIT_FAILURE;
    }

    /* Contiguous f32 arrays and scale 1/sqrt(D) are what the initialiser sets; the rest is ours to change. */
    clattn_problem problem;
    clattn_problem_init(&problem, CLATTN_FORWARD, &(clattn_sizes){B, HQ, HKV, M, N, D, DV});
    problem.causal = CLATTN_CAUSAL_BOTTOM_RIGHT;

    void *arrays[CLATTN_TENSOR_COUNT] = {
        [CLATTN_Q] = q, [CLATTN_K] = k, [CLATTN_V] = v, [CLATTN_O] = o, [CLATTN_LSE] = lse,
    };
    status = clattn_compute(context, CLATTN_FORWARD, &problem, arrays);
    if (status != CLATTN_SUCCESS)
        fprintf(stderr, "%s: %s\n", clattn_status_name(status), clattn_message());
    clattn_context_release(context);
    if (status != CLATTN_SUCCESS)
        return EXIT_FAILURE;

    const double error = largest_error();
    printf("largest error %.1e\n", error);
    return error < 1e-5 ? EXIT_SUCCESS : EXIT_FAILURE;
}
