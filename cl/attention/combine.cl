/*
 * The parts that attention_forward leaves where it splits the keys, put
 * together, one work-item a row. With L = log sum_n exp(L_n) and
 * w_n = exp(L_n - L):
 *     O = sum w_n O_n    mu = sum w_n mu_n    O' = sum w_n (O'_n + (mu_n - mu) O_n)
 * No engine.
 */
typedef struct {
    int b, h, i;
    long at;   /* in [B,Hq,M] */
    long rows; /* B Hq M */
    real top;  /* the largest L_n, or 0 for a row that attends to nothing */
    real sum;  /* of exp(L_n - top) */
} split_row;

/* exp(L_n - top) / sum; a part of weight 0 may hold what it likes. */
static inline real part_share(const arguments *a, const split_row *row, const int n)
{
    const long at = n * row->rows + row->at;
    return a->lse_parts[at] == -INFINITY ? (real)0
                                         : exp(a->lse_parts[at] - row->top + a->lse_low_parts[at]) / row->sum;
}

static inline real largest_part(const arguments *a, const split_row *row)
{
    real top = -INFINITY;
    for (int n = 0; n < a->p->splits; n++)
        top = fmax(top, a->lse_parts[n * row->rows + row->at]);
    return top;
}

static inline split_row split_row_of(const arguments *a, const long at)
{
    __global const struct attention_params *p = a->p;
    split_row row = {(int)(at / p->queries / p->heads_q),
                     (int)(at / p->queries % p->heads_q),
                     (int)(at % p->queries),
                     at,
                     (long)p->batch_stored * p->heads_q * p->queries,
                     0,
                     1};
    const real top = largest_part(a, &row);
    row.top = top == -INFINITY ? (real)0 : top;
    real sum = 0;
    for (int n = 0; n < p->splits; n++)
        sum += part_share(a, &row, n);
    /* every logit was -inf: an infinity among the inputs, which shows (see finish in forward.cl) */
    row.sum = top <= -REAL_MAX && top != -INFINITY ? (real)NAN : sum;
    return row;
}

static inline void store_element(const arguments *a, const split_row *row, const int d, const real x)
{
    if (a->o)
        STORE_OUT(x, a->o + row_offset(a, SLOT_O, 0, row->b, row->h, row->i) + d);
    if (a->o_full)
        a->o_full[row->at * a->p->head_dim_v + d] = x;
}

static inline void combine_output(const arguments *a, const split_row *row)
{
    const int dims = a->p->head_dim_v;
    for (int d = 0; d < dims; d++) {
        real x = 0;
        for (int n = 0; n < a->p->splits; n++) {
            const real share = part_share(a, row, n);
            x += share == 0 ? (real)0 : share * a->o_parts[(n * row->rows + row->at) * dims + d];
        }
        store_element(a, row, d, x);
    }
}

static inline void store_tangent_element(const arguments *a, const split_row *row, const int t, const int d,
                                         const real x)
{
    if (a->to)
        STORE_OUT(x, a->to + row_offset(a, SLOT_TO, t, row->b, row->h, row->i) + d);
    if (a->to_full)
        a->to_full[(t * row->rows + row->at) * a->p->head_dim_v + d] = x;
}

/* Tangent t of the launch's. */
static inline void combine_tangent(const arguments *a, const split_row *row, const int t)
{
    const int dims = a->p->head_dim_v, splits = a->p->splits;
    real mu = 0;
    for (int n = 0; n < splits; n++) {
        const real share = part_share(a, row, n);
        mu += share == 0 ? (real)0 : share * a->tlse_parts[(n * TANGENTS + t) * row->rows + row->at];
    }
    if (a->tlse)
        a->tlse[(a->tangent_first + t) * row->rows + row->at] = mu;
    for (int d = 0; d < dims; d++) {
        real x = 0;
        for (int n = 0; n < splits; n++) {
            const real share = part_share(a, row, n);
            const long part = (long)(n * TANGENTS + t) * row->rows + row->at;
            if (share != 0)
                x += share * (a->to_parts[part * dims + d] +
                              (a->tlse_parts[part] - mu) * a->o_parts[(n * row->rows + row->at) * dims + d]);
        }
        store_tangent_element(a, row, a->tangent_first + t, d, x);
    }
}

__kernel void attention_combine(ATTENTION_PARAMETERS)
{
    ATTENTION_ARGUMENTS;
    const split_row row = split_row_of(&a, get_global_id(0));
    combine_output(&a, &row);
    for (int t = 0; t < TANGENTS; t++)
        combine_tangent(&a, &row, t);
    const real top = largest_part(&a, &row), log_sum = log(row.sum), lse = row.top + log_sum;
    const bool empty = top == -INFINITY;
    if (a.lse)
        a.lse[row.at] = empty ? top : lse;
    if (a.lse_low)
        a.lse_low[row.at] = empty ? (real)0 : row.top - lse + log_sum;
}
