/*
 * Blocks of bf16 and their products, as cpu_bf16.cl describes them. What
 * multiplies them comes next: amx_tiles.cl or dot_pairs.cl.
 */
#define STEP 32 /* numbers of a sum in a row of A */
#define STEPS(length) (((length) + STEP - 1) / STEP)
#define BLOCK_ROWS 16
#define BLOCK_BYTES 1024
#define VECTOR_BYTES 64

/* For tests on machines without the instructions: the same in plain OpenCL C. */
#ifndef EMULATES_TILES
#define EMULATES_TILES 0
#endif

typedef ulong address; /* private and global memory alike */

/* C[m][n] = or += sum_k A[m][k] B[k][n], in blocks. */
typedef struct {
    address a, b, c;
    long a_row, a_step;       /* bytes from a row of A to the next, and from STEP numbers of it to the next */
    long b_column;            /* bytes from a block of columns of B to the next; its steps are neighbours */
    long c_row;               /* bytes from a row of C to the next; blocks of columns are neighbours */
    int rows, columns, steps; /* blocks along m, n and k */
    bool adds;
} block_product;
