/*
 * Per query, before the backward passes:
 *     delta  = sum_d dO O - dL
 *     delta' = sum_d (dO' O + dO O') - dL'     for one tangent
 * One work-item a row; no engine. O is the unrounded one where the call has it.
 */
static inline real output_at(const arguments *a, const int b, const int h, const int i, const int d)
{
    return a->o_full ? a->o_full[stat_index(a, 0, b, h, i) * a->p->head_dim_v + d]
                     : LOAD_OUT(a->o + row_offset(a, SLOT_O, 0, b, h, i) + d);
}

static inline real tangent_output_at(const arguments *a, const int b, const int h, const int i, const int d)
{
    return a->to_full ? a->to_full[stat_index(a, a->tangent_first, b, h, i) * a->p->head_dim_v + d]
                      : LOAD_OUT(a->to + row_offset(a, SLOT_TO, a->tangent_first, b, h, i) + d);
}

__kernel void attention_deltas(ATTENTION_PARAMETERS)
{
    ATTENTION_ARGUMENTS;
    const long row = get_global_id(0);
    const int i = (int)(row % params->queries);
    const int h = (int)(row / params->queries % params->heads_q);
    const int b = (int)(row / params->queries / params->heads_q);
    __global const in_t *d_out = a.d_o + row_offset(&a, SLOT_DO, 0, b, h, i);
    const long at = stat_index(&a, 0, b, h, i);
    real delta = a.dlse ? -a.dlse[at] : (real)0;
    for (int d = 0; d < params->head_dim_v; d++)
        delta = MULTIPLY_ADD(LOAD_IN(d_out + d), output_at(&a, b, h, i, d), delta);
    a.delta[at] = delta;
#if TANGENTS
    real tangent = a.tdlse ? -a.tdlse[stat_index(&a, tangent_first, b, h, i)] : (real)0;
    for (int d = 0; d < params->head_dim_v; d++) {
        tangent = MULTIPLY_ADD(LOAD_IN(d_out + d), tangent_output_at(&a, b, h, i, d), tangent);
#if HAS_TDO
        const real d_out_tangent = LOAD_IN(a.tdo + row_offset(&a, SLOT_TDO, tangent_first, b, h, i) + d);
        tangent = MULTIPLY_ADD(d_out_tangent, output_at(&a, b, h, i, d), tangent);
#endif
    }
    a.tdelta[at] = tangent;
#endif
}
