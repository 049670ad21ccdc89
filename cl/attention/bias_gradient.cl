/*
 * dB = dS and dB' = dS', summed over the axes that the bias broadcasts: one
 * work-group for each tile of dB walks over everything that is summed into it,
 * always in the same order. BIAS_GRADIENT says what a tile of dB is:
 */
#define BY_PAIRS 0   /* OUTER queries x INNER keys of [.,.,M,N] */
#define BY_QUERIES 1 /* OUTER queries of [.,.,M,1]: summed over keys; [.,.,1,1] takes the sum over those */
#define BY_KEYS 2    /* OUTER keys of [.,.,1,N]: summed over queries */
#ifndef BIAS_GRADIENT
#define BIAS_GRADIENT BY_PAIRS
#endif
#define KEYS_OUTER (BIAS_GRADIENT == BY_KEYS)

/* Which sequences and heads are summed into a tile of dB. Rows are counted in memory: in a packed batch a tile may
 * hold rows of several sequences. */
typedef struct {
    int b, h; /* of dB */
    int b_first, b_last, h_first, h_last;
    int first;       /* outer row */
    int inner_first; /* BY_PAIRS: the one inner tile; else unused */
} bias_tile;

static inline bias_tile bias_tile_of(const arguments *a, const long launch_tile)
{
    __global const struct attention_params *p = a->p;
    const long inner_tiles = BIAS_GRADIENT == BY_PAIRS ? ((long)p->keys + INNER - 1) / INNER : 1;
    const long outer_tiles = ((long)(KEYS_OUTER ? p->keys : p->queries) + OUTER - 1) / OUTER;
    const long outer_tile = launch_tile / inner_tiles;
    const int h = (int)(outer_tile / outer_tiles % p->bias_heads),
              b = (int)(outer_tile / outer_tiles / p->bias_heads);
    const bool all_b = p->bias_batches == 1, all_h = p->bias_heads == 1;
    const bias_tile tile = {b,
                            h,
                            all_b ? 0 : b,
                            all_b ? p->batch : b + 1,
                            all_h ? 0 : h,
                            all_h ? p->heads_q : h + 1,
                            (int)(outer_tile % outer_tiles) * OUTER,
                            (int)(launch_tile % inner_tiles) * INNER};
    return tile;
}

/* BY_PAIRS keeps every pair; else a row's pairs are added to its slot. */
#if BIAS_GRADIENT == BY_PAIRS
#define SUMS SCORES
#define SUM_OF(e, slot) (e)
#else
#define SUMS OUTER_SLOTS
#define SUM_OF(e, slot) (slot)
#endif

typedef struct {
    lanes d[SUMS];
    lanes td[SUMS];
} bias_sums;

static inline void add_weights(const group *g, const weights *w, bias_sums *sum)
{
    FOR_EACH_SCORE (g, e, slot, inner) {
        sum->d[SUM_OF(e, slot)] += w->of[DX][e];
#if TANGENTS
        sum->td[SUM_OF(e, slot)] += w->of[TDX][e];
#endif
    }
}

/* The inner rows of a sequence that a tile of dB sums over. */
static inline range summed_rows(const gradient_tile *tile, const bias_tile *bias)
{
    range rows = inner_rows(&tile->s, KEYS_OUTER, tile->first);
    if (BIAS_GRADIENT == BY_PAIRS) {
        const int only = bias->inner_first - tile->s.first_key;
        rows.begin = rows.begin < rows.end && only + INNER > rows.begin ? only : rows.end;
        rows.end = min(rows.end, only + 1);
    }
    return rows;
}

static inline void add_sequence_and_head(const arguments *a, const group *g, const bias_tile *bias,
                                         const int b, const int h, bias_sums *sum)
{
    const sequence s = sequence_of(a, b, h, KEYS_OUTER);
    const int first = bias->first - (KEYS_OUTER ? s.first_key : s.first_query);
    gradient_tile tile;
    take_rows(a, g, KEYS_OUTER, b, h, first, &tile);
    const range rows = summed_rows(&tile, bias);
    FOR_EACH_INNER_TILE (g, i0, &tile.r, KEYS_OUTER, first, rows) {
        const side inner = side_at(a, &tile.s, !KEYS_OUTER, i0);
        weights w;
        gradient_weights(a, g, &tile, &inner, i0, true, false, &w);
        add_weights(g, &w, sum);
    }
}

/* A tile of dB or of dB'; its rows go to scratch where they are still to be summed. */
static inline void store_sums(const arguments *a, const group *g, const bias_tile *bias, const int slot_id,
                              __global real *gradient, __global real *scratch, const lanes *sum)
{
    __global const struct axis_strides *stride = &a->p->strides[slot_id];
    __global real *base = scratch ? scratch + ((long)bias->b * a->p->bias_heads + bias->h) * a->p->queries
                                  : gradient + a->tangent_first * stride->tangent + bias->b * stride->batch +
                                        bias->h * stride->head;
#if BIAS_GRADIENT == BY_PAIRS
    FOR_EACH_SCORE (g, e, slot, inner) {
        const ilanes row = bias->first + outer_row(g, slot);
        const int column = bias->inner_first + inner;
        scatter_real(base, TO_LLANES(row) * stride->row + column, sum[e],
                     (row < a->p->queries) & (column < a->p->keys));
    }
#else
    const long step = scratch ? 1 : KEYS_OUTER ? stride->column : stride->row;
    if (owns_slots(g))
        FOR_EACH_SLOT (slot) {
            const ilanes row = bias->first + outer_row(g, slot);
            scatter_real(base, TO_LLANES(row) * step, sum[slot],
                         row < (KEYS_OUTER ? a->p->keys : a->p->queries));
        }
#endif
}

__kernel ENGINE_ATTRIBUTES void attention_bias_gradient(ATTENTION_PARAMETERS)
{
    ATTENTION_ARGUMENTS;
    GROUP(g);
    const bias_tile bias = bias_tile_of(&a, g.tile);
    bias_sums sum;
    CLEAR(sum.d, SUMS);
    CLEAR(sum.td, SUMS);
    for (int b = bias.b_first; b < bias.b_last; b++)
        for (int h = bias.h_first; h < bias.h_last; h++)
            add_sequence_and_head(&a, &g, &bias, b, h, &sum);
#if BIAS_GRADIENT != BY_PAIRS
    reduce_sum(&g, sum.d);
    reduce_sum(&g, sum.td);
#endif
    if (a.dbias && tangent_first == 0)
        store_sums(&a, &g, &bias, SLOT_DBIAS, a.dbias, a.bias_rows, sum.d);
    if (a.tdbias)
        store_sums(&a, &g, &bias, SLOT_TDBIAS, a.tdbias, a.tbias_rows, sum.td);
    END_GROUP(g);
}

static inline real sum_of_rows(__global const real *rows, const int count)
{
    real sum = 0;
    for (int i = 0; i < count; i++)
        sum += rows[i];
    return sum;
}

/* [.,.,1,1]: one work-item sums the rows of one batch and head of dB. */
__kernel void attention_sum_bias_rows(ATTENTION_PARAMETERS)
{
    ATTENTION_ARGUMENTS;
    const long n = get_global_id(0);
    const int b = (int)(n / params->bias_heads), h = (int)(n % params->bias_heads);
    const long at = n * params->queries;
    if (a.dbias && tangent_first == 0)
        a.dbias[row_offset(&a, SLOT_DBIAS, 0, b, h, 0)] = sum_of_rows(a.bias_rows + at, params->queries);
    if (a.tdbias)
        a.tdbias[row_offset(&a, SLOT_TDBIAS, tangent_first, b, h, 0)] =
            sum_of_rows(a.tbias_rows + at, params->queries);
}
