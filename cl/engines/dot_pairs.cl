/*
 * Products of blocks of bf16 (see cpu_bf16.cl) by the dot product of pairs that
 * x86 CPUs with AVX512-BF16 have: a pair of A, broadcast, by a vector of pairs
 * of B. A strip of DOT_ROWS rows by two columns of blocks stays in registers.
 */
#define DOT_ROWS 8
#define BEGIN_BLOCKS()
#define END_BLOCKS()
#define DOT_FUNCTION static __attribute__((noinline, target("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl")))
typedef float dot_sums __attribute__((vector_size(VECTOR_BYTES)));
typedef int dot_pairs __attribute__((vector_size(VECTOR_BYTES)));
#define DOT(sum, a, b)                                                                                       \
    __builtin_astype(__builtin_ia32_dpbf16ps_512(__builtin_astype(sum, dot_sums),                            \
                                                 __builtin_astype(a, dot_pairs),                             \
                                                 __builtin_astype(b, dot_pairs)),                            \
                     lanes)

/* DOT_ROWS rows from a on by COLUMNS blocks of columns, over all steps. */
#define DEFINE_DOT_STRIP(NAME, COLUMNS)                                                                      \
    DOT_FUNCTION void NAME(const block_product *p, const address a, const address b, const address c)        \
    {                                                                                                        \
        lanes sum[DOT_ROWS][COLUMNS];                                                                        \
        UNROLL_FOR (int m = 0; m < DOT_ROWS; m++)                                                            \
            UNROLL_FOR (int n = 0; n < COLUMNS; n++)                                                         \
                sum[m][n] = p->adds ? vload16(n, (const float *)(c + m * p->c_row)) : (lanes)(0);            \
        for (int k = 0; k < p->steps; k++) {                                                                 \
            const uint *row[DOT_ROWS];                                                                       \
            UNROLL_FOR (int m = 0; m < DOT_ROWS; m++)                                                        \
                row[m] = (const uint *)(a + m * p->a_row + k * p->a_step);                                   \
            const ulanes *x = (const ulanes *)(b + k * BLOCK_BYTES);                                         \
            const ulanes *y = (const ulanes *)(b + p->b_column + k * BLOCK_BYTES);                           \
            _Pragma("nounroll") for (int r = 0; r < BLOCK_ROWS; r++)                                         \
            {                                                                                                \
                const ulanes first = x[r], second = COLUMNS > 1 ? y[r] : first;                              \
                UNROLL_FOR (int m = 0; m < DOT_ROWS; m++) {                                                  \
                    const ulanes pair = (ulanes)(row[m][r]);                                                 \
                    sum[m][0] = DOT(sum[m][0], pair, first);                                                 \
                    if (COLUMNS > 1)                                                                         \
                        sum[m][COLUMNS - 1] = DOT(sum[m][COLUMNS - 1], pair, second);                        \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
        UNROLL_FOR (int m = 0; m < DOT_ROWS; m++)                                                            \
            UNROLL_FOR (int n = 0; n < COLUMNS; n++)                                                         \
                vstore16(sum[m][n], n, (float *)(c + m * p->c_row));                                         \
    }
DEFINE_DOT_STRIP(dot_two_columns, 2)
DEFINE_DOT_STRIP(dot_column, 1)

NOT_INLINED void multiply_blocks(const block_product *p)
{
    for (int m = 0; m < p->rows * BLOCK_ROWS; m += DOT_ROWS) {
        const address a = p->a + m * p->a_row;
        int n = 0;
        for (; n + 1 < p->columns; n += 2)
            dot_two_columns(p, a, p->b + n * p->b_column, p->c + m * p->c_row + n * VECTOR_BYTES);
        if (n < p->columns)
            dot_column(p, a, p->b + n * p->b_column, p->c + m * p->c_row + n * VECTOR_BYTES);
    }
}
