/*
 * dsink_h  = sum over b, i of P_s (dL - delta)           P_s  = exp(sink - L)
 * dsink_h' = sum of P_s' (dL - delta) + P_s (dL' - delta')   P_s' = P_s (sink' - mu)
 * where a->delta holds delta - dL. In two steps, so that the order of the sum
 * is one: parts of SINK_PART_ROWS rows, then their sum. No engine.
 */
typedef struct {
    real d, td;
} sink_sum;

static inline void add_row(const arguments *a, const int h, const long at, sink_sum *sum)
{
    const real lse = a->lse[at];
    if (lse == -INFINITY) /* a row that no sequence holds */
        return;
    const real p = exp(a->sink[h] - lse - (a->lse_low ? a->lse_low[at] : (real)0));
    sum->d -= p * a->delta[at];
#if TANGENTS
    const real tsink = a->tsink ? a->tsink[(long)a->tangent_first * a->p->heads_q + h] : (real)0;
    const long rows = (long)a->p->batch_stored * a->p->heads_q * a->p->queries;
    const real tp = p * (tsink - a->tlse[a->tangent_first * rows + at]);
    sum->td -= tp * a->delta[at] + p * a->tdelta[at];
#endif
}

static inline int sink_parts(const arguments *a)
{
    return (int)(((long)a->p->batch_stored * a->p->queries + SINK_PART_ROWS - 1) / SINK_PART_ROWS);
}

/* One work-item: one part of one head. */
__kernel void attention_sink_parts(ATTENTION_PARAMETERS)
{
    ATTENTION_ARGUMENTS;
    const int parts = sink_parts(&a);
    const int h = (int)(get_global_id(0) / parts);
    const long first = (long)(get_global_id(0) % parts) * SINK_PART_ROWS;
    const long last = min(first + SINK_PART_ROWS, (long)params->batch_stored * params->queries);
    sink_sum sum = {0, 0};
    for (long row = first; row < last; row++)
        add_row(&a, h, stat_index(&a, 0, (int)(row / params->queries), h, row % params->queries), &sum);
    a.sink_parts[get_global_id(0)] = sum.d;
#if TANGENTS
    a.tsink_parts[get_global_id(0)] = sum.td;
#endif
}

/* One work-item: one head. */
__kernel void attention_sink_gradient(ATTENTION_PARAMETERS)
{
    ATTENTION_ARGUMENTS;
    const int parts = sink_parts(&a), h = (int)get_global_id(0);
    sink_sum sum = {0, 0};
    for (int part = 0; part < parts; part++) {
        sum.d += a.sink_parts[h * (long)parts + part];
#if TANGENTS
        sum.td += a.tsink_parts[h * (long)parts + part];
#endif
    }
    if (a.dsink && tangent_first == 0)
        a.dsink[h] = sum.d;
    if (a.tdsink)
        a.tdsink[(long)tangent_first * params->heads_q + h] = sum.td;
}
