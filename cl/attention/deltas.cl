/*
 * Per query, before the backward passes:
 *     delta  = sum_d dO O - dL
 *     delta' = sum_d (dO' O + dO O') - dL'     for one tangent
 * One work-item a row; no engine.
 */

/* A row of O or O': the unrounded one where the call has it. */
typedef struct {
    __global const real *full;
    __global const out_t *rounded;
} output_row;

static inline real output_at(const output_row *row, const int d)
{
    return row->full ? row->full[d] : LOAD_OUT(row->rounded + d);
}

static inline output_row output_row_at(const arguments *a, __global const real *full, const long stat,
                                       __global const out_t *rounded, const long offset)
{
    const output_row row = {full ? full + stat * a->p->head_dim_v : 0, full ? 0 : rounded + offset};
    return row;
}

/* A sum is kept in this many parts, so that one addition need not wait for the other. */
#define DELTA_PARTS 4

/* sum_d x[d] O[d] */
static inline real dot_output(__global const in_t *x, const output_row *o, const int dims)
{
    real part[DELTA_PARTS] = {0};
    int d = 0;
    for (; d + DELTA_PARTS <= dims; d += DELTA_PARTS)
        for (int n = 0; n < DELTA_PARTS; n++)
            part[n] = MULTIPLY_ADD(LOAD_IN(x + d + n), output_at(o, d + n), part[n]);
    for (; d < dims; d++)
        part[0] = MULTIPLY_ADD(LOAD_IN(x + d), output_at(o, d), part[0]);
    return (part[0] + part[1]) + (part[2] + part[3]);
}

__kernel void attention_deltas(ATTENTION_PARAMETERS)
{
    ATTENTION_ARGUMENTS;
    const long row = get_global_id(0);
    const int i = (int)(row % params->queries), h = (int)(row / params->queries % params->heads_q),
              b = (int)(row / params->queries / params->heads_q);
    const int dims = params->head_dim_v;
    __global const in_t *d_out = a.d_o + row_offset(&a, SLOT_DO, 0, b, h, i);
    const output_row o = output_row_at(&a, a.o_full, row, a.o, row_offset(&a, SLOT_O, 0, b, h, i));
    a.delta[row] = dot_output(d_out, &o, dims) - (a.dlse ? a.dlse[row] : (real)0);
#if TANGENTS
    const int t = tangent_first;
    const long stat = stat_index(&a, t, b, h, i);
    const output_row to = output_row_at(&a, a.to_full, stat, a.to, row_offset(&a, SLOT_TO, t, b, h, i));
    real tangent = dot_output(d_out, &to, dims) - (a.tdlse ? a.tdlse[stat] : (real)0);
#if HAS_TDO
    tangent += dot_output(a.tdo + row_offset(&a, SLOT_TDO, t, b, h, i), &o, dims);
#endif
    a.tdelta[row] = tangent;
#endif
}
