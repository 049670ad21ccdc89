/*
 * Products of engine "nv_wgmma", a list at a time: one wait for all tiles, all
 * wgmma issued, one wait for all sums. See nv_wgmma.cl for the roles.
 */

/* True if a product before n has the same inner rows. */
#define IS_KNOWN(products, member, n)                                                                        \
    bool known = false;                                                                                      \
    UNROLL_FOR (int m_ = 0; m_ < (n); m_++)                                                                  \
    known = known || (products)[m_].member == (products)[n].member

/* Arrays of a work-item that is ALONE are indexed as it comes, so they lie in memory, and their loops stay loops. */
#define ROLLED_FOR _Pragma("unroll 1") for

/* A work-item's dot products, as the reference engine makes them. */
static inline void multiply_scores_alone(const group *g, lanes *sum, const view *outer, const view *inner,
                                         const bool adds)
{
    ROLLED_FOR (int e = 0; e < SCORES; e++) {
        const int slot = e >> 1 & 1, j = (e >> 2) * 8 + (e & 1) + g->column;
        lanes dot = adds ? sum[e] : 0;
        ROLLED_FOR (int d = 0; d < inner->dims; d++)
            dot = MULTIPLY_ADD(view_at(outer, outer_row(g, slot), d), view_at(inner, j, d), dot);
        sum[e] = dot;
    }
}

/* The weights of a row are spread over four work-items. */
static inline void multiply_values_alone(const group *g, lanes *output, const int dim_class,
                                         const lanes *keep, const lanes *weights, const view *inner,
                                         const bool careful)
{
    const int quad = (int)get_local_id(0) & 28;
    ROLLED_FOR (int e = 0; e < OUTPUTS(dim_class); e++)
        output[e] *= !keep ? 1 : e & 2 ? keep[1] : keep[0];
    ROLLED_FOR (int j = 0; j < INNER; j++) {
        const int owner = quad + (j & 7) / 2, first = (j >> 3) * 4 + (j & 1);
        const lanes weight_0 = shuffle_from(weights[first], owner);
        const lanes weight_1 = shuffle_from(weights[first + 2], owner);
        ROLLED_FOR (int e = 0; e < OUTPUTS(dim_class); e++) {
            const lanes w = e & 2 ? weight_1 : weight_0,
                        x = view_at(inner, j, (e >> 2) * 8 + (e & 1) + g->column);
            output[e] = careful && IS_MARKED(w) ? output[e] : MULTIPLY_ADD(w, x, output[e]);
        }
    }
}

static inline void start_score_products(const group *g, const score_product *products, const int count)
{
    uint inner[2 * TANGENTS + 1];
    if (g->role == MULTIPLIES) {
        UNROLL_FOR (int n = 0; n < count; n++) {
            IS_KNOWN(products, inner, n);
            if (!known)
                inner[n] = next_inner(g);
            UNROLL_FOR (int m = 0; m < n; m++)
                if (products[m].inner == products[n].inner)
                    inner[n] = inner[m];
        }
        take_turn(g);
        wgmma_begin();
    }
    UNROLL_FOR (int n = 0; n < count; n++) {
        const score_product *product = &products[n];
        if (g->role == LOADS) {
            IS_KNOWN(products, inner, n);
            if (!known)
                load_inner(g, product->inner, PIECES(HEAD_DIM_CLASS));
        } else if (g->role == ALONE) {
            multiply_scores_alone(g, product->sum, &product->outer->rows, product->inner, product->adds);
        } else {
            const ulong a =
                rows_descriptor(held_tile(g, product->outer->number) + g->warpgroup * PIECE_BYTES(64));
            const ulong b = rows_descriptor(inner[n]);
            UNROLL_FOR (int k = 0; k < HEAD_DIM_CLASS / 16; k++)
                WGMMA_NAME(rows, INNER)
            (product->sum, a + k / 4 * (PIECE_BYTES(OUTER) >> 4) + k % 4 * 2,
             b + k / 4 * (PIECE_BYTES(INNER) >> 4) + k % 4 * 2, product->adds || k > 0);
        }
    }
    if (g->role == MULTIPLIES) {
        wgmma_commit();
        end_turn(g);
    }
}

static inline void give_back_inner_of_scores(const group *g, const score_product *products, const int count)
{
    UNROLL_FOR (int n = 0; n < count; n++) {
        IS_KNOWN(products, inner, n);
        if (!known)
            give_back_inner(g);
    }
}

static inline void finish_score_products(const group *g, const score_product *products, const int count)
{
    if (g->role != MULTIPLIES)
        return;
    UNROLL_FOR (int n = 0; n < count; n++)
        WGMMA_NAME(wait, INNER)(products[n].sum);
    give_back_inner_of_scores(g, products, count);
}

/* The same while one list that was started later may go on. */
static inline void finish_older_score_products(const group *g, const score_product *products, const int count)
{
    if (g->role != MULTIPLIES)
        return;
    UNROLL_FOR (int n = 0; n < count; n++)
        WGMMA_NAME(wait_older, INNER)(products[n].sum);
    give_back_inner_of_scores(g, products, count);
}

/* Weights as the left side of a product: pairs of neighbours, as wgmma has its A in registers. */
typedef struct {
    uint pairs[SCORES / 2];
} operand;

static inline operand hand_over(const lanes *weights)
{
    operand packed;
    UNROLL_FOR (int n = 0; n < SCORES / 2; n++)
        packed.pairs[n] = pack_pair(weights[2 * n], weights[2 * n + 1]);
    return packed;
}

/* Rows are rescaled seldom: a warp that has none to rescale goes on. */
static inline void rescale(const group *g, lanes *output, const int dim_class, const lanes *keep)
{
    if (warp_any(keep[0] != 1 || keep[1] != 1)) {
        FOR_EACH_OUTPUT (g, e, slot, d, dim_class)
            output[e] *= keep[slot];
    }
}

static inline void hand_over_list(const group *g, const value_product *products, const int count,
                                  operand *weights)
{
    if (g->role == MULTIPLIES)
        UNROLL_FOR (int n = 0; n < count; n++)
            weights[n] = hand_over(products[n].weights);
}

static inline void start_handed_products(const group *g, const value_product *products, const int count,
                                         const operand *weights)
{
    uint inner[2 * TANGENTS + 1];
    if (g->role == MULTIPLIES) {
        UNROLL_FOR (int n = 0; n < count; n++) {
            if (products[n].keep)
                rescale(g, products[n].output, HEAD_DIM_V_CLASS, products[n].keep);
            IS_KNOWN(products, rows, n);
            if (!known)
                inner[n] = next_inner(g);
            UNROLL_FOR (int m = 0; m < n; m++)
                if (products[m].rows == products[n].rows)
                    inner[n] = inner[m];
        }
        if (TAKES_TURNS == 2)
            take_turn(g);
        wgmma_begin();
    }
    UNROLL_FOR (int n = 0; n < count; n++)
        if (g->role == LOADS) {
            IS_KNOWN(products, rows, n);
            if (!known)
                load_inner(g, products[n].rows, PIECES(HEAD_DIM_V_CLASS));
        } else {
            const ulong b = values_descriptor(inner[n], PIECE_BYTES(INNER));
            UNROLL_FOR (int k = 0; k < INNER / 16; k++)
                WGMMA_NAME(values, HEAD_DIM_V_CLASS)
            (products[n].output, weights[n].pairs + 4 * k, b + 128 * k);
        }
    if (g->role == MULTIPLIES)
        wgmma_commit();
}

static inline void start_value_products(const group *g, const value_product *products, const int count,
                                        const bool careful)
{
    if (g->role == ALONE) {
        UNROLL_FOR (int n = 0; n < count; n++)
            multiply_values_alone(g, products[n].output, products[n].dim_class, products[n].keep,
                                  products[n].weights, products[n].rows, careful);
    } else {
        operand weights[2 * TANGENTS + 1];
        hand_over_list(g, products, count, weights);
        start_handed_products(g, products, count, weights);
    }
}

static inline void finish_value_products(const group *g, const value_product *products, const int count)
{
    if (g->role != MULTIPLIES)
        return;
    UNROLL_FOR (int n = 0; n < count; n++)
        WGMMA_NAME(wait, HEAD_DIM_V_CLASS)(products[n].output);
    UNROLL_FOR (int n = 0; n < count; n++) {
        IS_KNOWN(products, rows, n);
        if (!known)
            give_back_inner(g);
    }
}

/* ---- results ---- */

/* Two neighbouring dims at a time where memory has them so. */
static inline void store_pair(__global out_t *to, const float low, const float high)
{
#if OUT_TYPE == TYPE_F32
    *(__global ulong *)to = as_uint(low) | (ulong)as_uint(high) << 32;
#elif OUT_TYPE == IN_TYPE
    *(__global uint *)to = pack_pair(low, high);
#else
    STORE_OUT(low, to);
    STORE_OUT(high, to + 1);
#endif
}

static inline void store_row(const target *to, const lanes *output, const int dim_class, const lanes factor,
                             const int row, const int column)
{
    const long at = row * to->stride + column;
    const int dims = to->dims - column; /* from this work-item's first on */
    const bool pairs = !to->full && ((to->stride | to->dims) & 1) == 0 && ((ulong)to->rounded & 7) == 0;
    if (row >= to->rows)
        return;
    if (pairs && to->dims == dim_class) {
        UNROLL_FOR (int n = 0; n < dim_class / 8; n++)
            store_pair(to->rounded + at + 8 * n, factor * output[4 * n], factor * output[4 * n + 1]);
    } else {
        UNROLL_FOR (int n = 0; n < dim_class / 4; n++) {
            const int d = n / 2 * 8 + n % 2;
            if (d < dims && to->full)
                to->full[at + d] = factor * output[n / 2 * 4 + n % 2];
            else if (d < dims)
                STORE_OUT(factor * output[n / 2 * 4 + n % 2], to->rounded + at + d);
        }
    }
}

static inline void store_rows(const group *g, const target *to, const lanes *output, const int dim_class,
                              const real factor)
{
    if (g->role != LOADS)
        FOR_EACH_SLOT (slot)
            store_row(to, output + 2 * slot, dim_class, factor, outer_row(g, slot), g->column);
}
