/*
 * Products of blocks of bf16 (see cpu_bf16.cl) on the tile registers of x86
 * CPUs that have AMX, through the compiler's builtins: a register holds a
 * block, and one instruction multiplies two.
 */
#if EMULATES_TILES
#define TILE_FUNCTION static __attribute__((noinline))
typedef struct {
    uint at[BLOCK_ROWS][16];
} tile_register;
#define TILE_REGISTERS tile_register tiles_[8]
#define TILE_ZERO(t) tile_zero(&tiles_[t])
#define TILE_LOAD(t, from, stride) tile_load(&tiles_[t], from, stride)
#define TILE_STORE(t, to, stride) tile_store(&tiles_[t], to, stride)
#define TILE_MULTIPLY_ADD(c, a, b) tile_multiply_add(&tiles_[c], &tiles_[a], &tiles_[b])
#define BEGIN_BLOCKS()
#define END_BLOCKS()

static inline void tile_zero(tile_register *t)
{
    for (int r = 0; r < BLOCK_ROWS; r++)
        for (int n = 0; n < 16; n++)
            t->at[r][n] = 0;
}

static inline void tile_load(tile_register *t, const address from, const long stride)
{
    for (int r = 0; r < BLOCK_ROWS; r++) {
        __global const ushort *row = (__global const ushort *)(from + r * stride);
        for (int n = 0; n < 16; n++)
            t->at[r][n] = row[2 * n] | (uint)row[2 * n + 1] << 16;
    }
}

static inline void tile_store(const tile_register *t, const address to, const long stride)
{
    for (int r = 0; r < BLOCK_ROWS; r++)
        for (int n = 0; n < 16; n++)
            ((__global uint *)(to + r * stride))[n] = t->at[r][n];
}

static inline void tile_multiply_add(tile_register *c, const tile_register *a, const tile_register *b)
{
    for (int m = 0; m < BLOCK_ROWS; m++)
        for (int k = 0; k < 16; k++)
            for (int n = 0; n < 16; n++) {
                const uint x = a->at[m][k], y = b->at[k][n];
                float sum = as_float(c->at[m][n]);
                sum = fma(as_float(x << 16), as_float(y << 16), sum);
                sum = fma(as_float(x & 0xffff0000u), as_float(y & 0xffff0000u), sum);
                c->at[m][n] = as_uint(sum);
            }
}

#else
#define TILE_FUNCTION                                                                                        \
    static                                                                                                   \
        __attribute__((noinline, target("amx-bf16,amx-tile,avx512bf16,avx512f,avx512bw,avx512dq,avx512vl")))
#define TILE_REGISTERS
#define TILE_ZERO(t) __builtin_ia32_tilezero(t)
#define TILE_LOAD(t, from, stride) __builtin_ia32_tileloadd64(t, (const void *)(from), (size_t)(stride))
#define TILE_STORE(t, to, stride) __builtin_ia32_tilestored64(t, (void *)(to), (size_t)(stride))
#define TILE_MULTIPLY_ADD(c, a, b) __builtin_ia32_tdpbf16ps(c, a, b)
#define BEGIN_BLOCKS() configure_tiles()
#define END_BLOCKS() release_tiles()

/* All eight registers of full size, for the thread that runs the work-item. */
TILE_FUNCTION void configure_tiles(void)
{
    uchar layout[64]; /* the palette, 15 reserved bytes, bytes of a row (ushort), 16 reserved bytes, rows */
    for (int i = 0; i < 64; i++)
        layout[i] = 0;
    layout[0] = 1;
    for (int t = 0; t < 8; t++) {
        layout[16 + 2 * t] = VECTOR_BYTES;
        layout[48 + t] = BLOCK_ROWS;
    }
    __builtin_ia32_tile_loadconfig(layout);
}

TILE_FUNCTION void release_tiles(void) { __builtin_ia32_tilerelease(); }

#endif

/*
 * ROWS blocks of rows and COUNT steps of A stay in registers 4 .. 7, and B
 * streams past them: it is the smaller one and stays in the nearest cache. A
 * sum takes its steps one after the other: the instruction runs at full rate
 * only along one register.
 */
#define DEFINE_STRIP(NAME, ROWS, COUNT)                                                                      \
    TILE_FUNCTION void NAME(const block_product *p, const address a, address b, address c, const bool adds)  \
    {                                                                                                        \
        TILE_REGISTERS;                                                                                      \
        const long a_row = p->a_row, c_row = p->c_row;                                                       \
        const address third = a + (ROWS > 1 ? BLOCK_ROWS * a_row : 2 * p->a_step);                           \
        const address c1 = c + BLOCK_ROWS * c_row;                                                           \
        TILE_LOAD(4, a, a_row);                                                                              \
        if (COUNT > 1)                                                                                       \
            TILE_LOAD(5, a + p->a_step, a_row);                                                              \
        if (COUNT > 2 || ROWS > 1)                                                                           \
            TILE_LOAD(6, third, a_row);                                                                      \
        if (COUNT > 3 || (COUNT > 1 && ROWS > 1))                                                            \
            TILE_LOAD(7, third + p->a_step, a_row);                                                          \
        for (long n = 0; n < p->columns * VECTOR_BYTES; n += VECTOR_BYTES, b += p->b_column) {               \
            START_SUM(0, c + n);                                                                             \
            TILE_LOAD(2, b, VECTOR_BYTES);                                                                   \
            if (COUNT > 1)                                                                                   \
                TILE_LOAD(3, b + BLOCK_BYTES, VECTOR_BYTES);                                                 \
            TILE_MULTIPLY_ADD(0, 4, 2);                                                                      \
            if (COUNT > 1)                                                                                   \
                TILE_MULTIPLY_ADD(0, 5, 3);                                                                  \
            if (ROWS > 1) {                                                                                  \
                START_SUM(1, c1 + n);                                                                        \
                TILE_MULTIPLY_ADD(1, 6, 2);                                                                  \
                if (COUNT > 1)                                                                               \
                    TILE_MULTIPLY_ADD(1, 7, 3);                                                              \
                TILE_STORE(1, c1 + n, c_row);                                                                \
            }                                                                                                \
            if (COUNT > 2) {                                                                                 \
                TILE_LOAD(2, b + 2 * BLOCK_BYTES, VECTOR_BYTES);                                             \
                TILE_MULTIPLY_ADD(0, 6, 2);                                                                  \
            }                                                                                                \
            if (COUNT > 3) {                                                                                 \
                TILE_LOAD(3, b + 3 * BLOCK_BYTES, VECTOR_BYTES);                                             \
                TILE_MULTIPLY_ADD(0, 7, 3);                                                                  \
            }                                                                                                \
            TILE_STORE(0, c + n, c_row);                                                                     \
        }                                                                                                    \
    }
#define START_SUM(t, from)                                                                                   \
    if (adds)                                                                                                \
        TILE_LOAD(t, from, c_row);                                                                           \
    else                                                                                                     \
        TILE_ZERO(t)
DEFINE_STRIP(multiply_2_by_2, 2, 2)
DEFINE_STRIP(multiply_2_by_1, 2, 1)
DEFINE_STRIP(multiply_1_by_4, 1, 4)
DEFINE_STRIP(multiply_1_by_3, 1, 3)
DEFINE_STRIP(multiply_1_by_2, 1, 2)
DEFINE_STRIP(multiply_1_by_1, 1, 1)

NOT_INLINED void multiply_blocks(const block_product *p)
{
    for (int k = 0; k < p->steps; k += 4) {
        const int count = min(p->steps - k, 4);
        const bool adds = p->adds || k > 0;
        const address b = p->b + k * BLOCK_BYTES;
        for (int m = 0, rows; m < p->rows; m += rows) {
            const address a = p->a + m * BLOCK_ROWS * p->a_row + k * p->a_step;
            const address c = p->c + m * BLOCK_ROWS * p->c_row;
            rows = count <= 2 && m + 1 < p->rows ? 2 : 1;
            if (count == 4)
                multiply_1_by_4(p, a, b, c, adds);
            else if (count == 3)
                multiply_1_by_3(p, a, b, c, adds);
            else if (count == 2 && rows == 2)
                multiply_2_by_2(p, a, b, c, adds);
            else if (count == 2)
                multiply_1_by_2(p, a, b, c, adds);
            else if (rows == 2)
                multiply_2_by_1(p, a, b, c, adds);
            else
                multiply_1_by_1(p, a, b, c, adds);
        }
    }
}
