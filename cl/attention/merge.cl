/*
 * Merging two partial results over disjoint keys, one work-item a row:
 *     w_n = exp(L_n - L)      O = sum w_n O_n      L' = sum w_n L'_n
 *     O' = sum w_n (O'_n + (L'_n - L') O_n)
 * L_n is lse + lse_low. The result may take the place of a part: whatever of a
 * row is still needed is read before it is written.
 */
typedef struct {
    __global out_t *o, *to;
    __global real *lse, *low, *tlse;
} partial;

#define PARTIAL_PARAMETERS(n)                                                                                \
    __global out_t *o##n, __global real *lse##n, __global real *low##n, __global out_t *to##n,               \
        __global real *tlse##n
#define PARTIAL(n)                                                                                           \
    {                                                                                                        \
        o##n + params.part[n].o, to##n ? to##n + params.part[n].to : 0, lse##n + params.part[n].lse,         \
            low##n ? low##n + params.part[n].low : 0, tlse##n ? tlse##n + params.part[n].tlse : 0            \
    }

/* exp(L_n - top); 0 for an empty part. */
static inline real part_weight(const partial *part, const long row, const real top)
{
    const real low = part->low ? part->low[row] : (real)0;
    return part->lse[row] == -INFINITY ? (real)0 : exp(part->lse[row] - top + low);
}

static inline real mixed(const real w0, const real x0, const real w1, const real x1)
{
    /* a part of weight 0 may hold what it likes: an empty one holds 0, one that underflowed adds nothing */
    return (w0 == 0 ? (real)0 : w0 * x0) + (w1 == 0 ? (real)0 : w1 * x1);
}

/* Element d of O and of every O'. */
static inline void merge_element(const partial part[2], const partial *to, const real w[2],
                                 const struct merge_params *params, const long row, const int d)
{
    const long at = row * params->head_dim_v + d;
    const real o0 = LOAD_OUT(part[0].o + at), o1 = LOAD_OUT(part[1].o + at);
    for (int t = 0; t < params->tangents; t++) {
        const long stat = t * params->rows + row, element = stat * params->head_dim_v + d;
        const real mu0 = part[0].tlse[stat], mu1 = part[1].tlse[stat];
        const real mu = mixed(w[0], mu0, w[1], mu1);
        STORE_OUT(mixed(w[0], LOAD_OUT(part[0].to + element) + (mu0 - mu) * o0, w[1],
                        LOAD_OUT(part[1].to + element) + (mu1 - mu) * o1),
                  to->to + element);
    }
    STORE_OUT(mixed(w[0], o0, w[1], o1), to->o + at);
}

__kernel void attention_merge(PARTIAL_PARAMETERS(0), PARTIAL_PARAMETERS(1), PARTIAL_PARAMETERS(2),
                              const struct merge_params params)
{
    const partial part[2] = {PARTIAL(0), PARTIAL(1)};
    const partial to = PARTIAL(2);
    const long row = get_global_id(0);
    const real top = fmax(part[0].lse[row], part[1].lse[row]);
    const real base = top == -INFINITY ? (real)0 : top;
    real w[2] = {part_weight(&part[0], row, base), part_weight(&part[1], row, base)};
    const real sum = w[0] + w[1];
    const real log_sum = log(sum);
    w[0] = sum == 0 ? 0 : w[0] / sum;
    w[1] = sum == 0 ? 0 : w[1] / sum;

    for (int d = 0; d < params.head_dim_v; d++)
        merge_element(part, &to, w, &params, row, d);
    for (int t = 0; t < params.tangents; t++) {
        const long stat = t * params.rows + row;
        to.tlse[stat] = mixed(w[0], part[0].tlse[stat], w[1], part[1].tlse[stat]);
    }
    const real lse = top + log_sum;
    if (to.low)
        to.low[row] = sum == 0 ? 0 : top - lse + log_sum;
    to.lse[row] = lse;
}
