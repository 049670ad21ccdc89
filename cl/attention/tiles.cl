/*
 * What forward and backward share: where a tile lies, views of the tensors'
 * rows, and small loops over what an engine holds.
 */

/* A tile of a launch: its sequence and head, and its first row in that sequence. Tiles of one head are neighbours. */
typedef struct {
    int b, h;
    int first;
} place;

/*
 * Of a packed batch the host launches as many tiles as there can be; which
 * sequence one lies in shows here. One that lies behind the last row starts
 * beyond its sequence and so does nothing.
 */
static inline place place_in_packed(const arguments *a, const tile_number tile, const bool keys_outer,
                                    const int heads)
{
    const int batch = a->p->batch, total = keys_outer ? a->p->keys : a->p->queries;
    const tile_number tiles = ((tile_number)total + OUTER - 1) / OUTER + batch + 2;
    __global const int *cu_seqlens = keys_outer ? a->cu_seqlens_k : a->cu_seqlens_q;
    place at = {0, (int)(tile / tiles), (int)(tile % tiles)};
    for (; at.b < batch + 1; at.b++) {
        const range rows = packed_rows(cu_seqlens, at.b, batch, total);
        const int here = (rows.end - rows.begin + OUTER - 1) / OUTER;
        if (at.first < here)
            break;
        at.first -= here;
    }
    at.first *= OUTER;
    return at;
}

/* Outer tiles of a launch: as many as the host counts. */
static inline tile_number outer_tiles(const arguments *a, const bool keys_outer, const int heads)
{
    const tile_number tiles = ((tile_number)(keys_outer ? a->p->keys : a->p->queries) + OUTER - 1) / OUTER;
    return a->cu_seqlens_q ? heads * (tiles + a->p->batch + 2) : (tile_number)a->p->batch * heads * tiles;
}

/* Tiles with more to do come first where queries see only keys before them, so that none is left for the end. */
static inline place place_of(const arguments *a, const tile_number tile, const bool keys_outer,
                             const int heads)
{
    if (a->cu_seqlens_q)
        return place_in_packed(a, tile, keys_outer, heads);
    const tile_number tiles = ((tile_number)(keys_outer ? a->p->keys : a->p->queries) + OUTER - 1) / OUTER;
    const int together = keys_outer ? 1 : a->p->heads_together;
    const int first_head = (int)(tile / tiles / together) * together;
    const int mixed = min(together, a->p->batch * heads - first_head);
    const int n = (int)(tile - first_head * tiles), head = first_head + n % mixed, row = n / mixed;
    const place at = {head / heads, head % heads, (keys_outer ? row : (int)tiles - 1 - row) * OUTER};
    return at;
}

/* The inner rows that an outer tile may have something to do with, and the first of them that start a tile which
 * is not empty, from `inner` on. */
static inline range inner_rows(const sequence *s, const bool keys_outer, const int first)
{
    const range none = {0, 0};
    if (first >= (keys_outer ? s->keys : s->queries) || first + OUTER <= 0)
        return none;
    return keys_outer ? queries_that_see(s, first, min(first + OUTER, s->keys) - 1)
                      : keys_seen_by(s, first, min(first + OUTER, s->queries) - 1);
}

static inline int next_tile(const group *g, const rules *r, const bool keys_outer, const int first, int inner,
                            const int end)
{
#if RULES_EMPTY_TILES
    while (inner < end && (keys_outer ? tile_is_empty(r, inner, INNER, first, OUTER)
                                      : tile_is_empty(r, first, OUTER, inner, INNER)))
        inner += INNER;
    /* PoCL 3.1 cannot form its work-item loops where this loop runs into that of the tiles */
    group_barrier(g);
#endif
    return inner;
}

/* Inner tiles of `rows` that no rule leaves empty. The loop has no branch around its body: a body may hold barriers. */
#define FOR_EACH_INNER_TILE(g, inner, r, keys_outer, first, rows)                                            \
    for (int inner = next_tile(g, r, keys_outer, first, (rows).begin, (rows).end); inner < (rows).end;       \
         inner = next_tile(g, r, keys_outer, first, inner + INNER, (rows).end))

/* Rows from `first` on of a [B,H,S,dims] tensor; those from `rows` on read as 0. */
static inline view rows_view(const arguments *a, __global const in_t *tensor, const int slot, const int t,
                             const int b, const int h, const int first, const int rows, const int dims)
{
    const int tangent = a->tangent_first + t;
    view v = {tensor + row_offset(a, slot, tangent, b, h, first), a->p->strides[slot].row, rows, dims};
#if LOADS_BY_MAPS
    v.slot = slot;
    v.t = tangent;
    v.b = b;
    v.h = h;
    v.row = first;
#endif
    return v;
}

/* A view of a query-side (key-side) tensor by its argument name, from row `first` of sequence s on. */
#define QUERY_ROWS(a, s, name, SLOT, t, first, dims)                                                         \
    rows_view(a, (a)->name, SLOT, t, (s)->batch, (s)->h, (s)->first_query + (first), (s)->queries - (first), \
              dims)
#define KEY_ROWS(a, s, name, SLOT, t, first, dims)                                                           \
    rows_view(a, (a)->name, SLOT, t, (s)->batch, (s)->h_kv, (s)->first_key + (first), (s)->keys - (first),   \
              dims)

static inline target rows_target(const arguments *a, __global out_t *tensor, const int slot, const int t,
                                 const int b, const int h, const int first, const int rows, const int dims)
{
    const target to = {tensor + row_offset(a, slot, t, b, h, first), 0, a->p->strides[slot].row, rows, dims};
    return to;
}

/* The same for query-side (key-side) results. All rows of a key-side result in memory are written, those behind a
 * kv length too. */
#define QUERY_TARGET(a, s, name, SLOT, t, first, dims)                                                       \
    rows_target(a, (a)->name, SLOT, t, (s)->batch, (s)->h, (s)->first_query + (first),                       \
                (s)->queries - (first), dims)
#define KEY_TARGET(a, s, name, SLOT, t, first, dims)                                                         \
    rows_target(a, (a)->name, SLOT, t, (s)->batch, (s)->h_kv, (s)->first_key + (first),                      \
                ((a)->cu_seqlens_k ? (s)->keys : (a)->p->keys) - (first), dims)

#define FOR_EACH_TANGENT(t) UNROLL_LIST_FOR (int t = 0; t < TANGENTS; t++)

#define CLEAR(array, length)                                                                                 \
    for (int n_ = 0; n_ < (length); n_++)                                                                    \
    (array)[n_] = 0

static inline void make_score_products(const group *g, const score_product *products, const int count)
{
    start_score_products(g, products, count);
    finish_score_products(g, products, count);
}

static inline void add_value_products(const group *g, const value_product *products, const int count,
                                      const bool careful)
{
    start_value_products(g, products, count, careful);
    finish_value_products(g, products, count);
}

#define IS_FINITE(x) (fabs(x) <= REAL_MAX)

static inline bool finite_outputs(const group *g, const lanes *output, const int dim_class)
{
    ilanes finite = TO_ILANES(ALL_LANES);
    FOR_EACH_OUTPUT (g, e, slot, d, dim_class)
        finite = finite & IS_FINITE(output[e]);
    return EVERY_LANE(finite);
}

static inline void clear_outputs(const group *g, lanes *output, const int dim_class)
{
    FOR_EACH_OUTPUT (g, e, slot, d, dim_class)
        output[e] = 0;
}

/*
 * A weight where a pair attends, else 0. For a careful product, pairs that do
 * not attend become MARK, and a weight of -0 of a pair that does becomes +0.
 */
static inline lanes masked(const lanes weight, const ilanes attends, const bool careful)
{
    if (careful)
        return attends ? weight + 0 : TO_LANES(MARK);
    return attends ? weight : TO_LANES(0);
}

/* The same for a weight that is 0 already where a pair does not attend. */
static inline lanes marked(const lanes weight, const ilanes attends, const bool careful)
{
    return careful ? masked(weight, attends, true) : weight;
}

/* True where an engine wants a copy of the arithmetic on lanes for tiles that need only the plainest of it. */
#define TAKES_PLAIN_COPY(special) (ENGINE_SPLITS_PLAIN_TILES ? !(special) : false)

/*
 * Runs the statement once with `careful` false, and again with it true if `finite`, evaluated after it, does not
 * hold: a NaN or an infinity may stem from a pair that does not attend, as 0 x NaN. The same for a whole group.
 */
#define TWICE_IF_NOT_FINITE(careful, finite)                                                                 \
    for (int attempt_ = 0, again_ = 1; again_; again_ = attempt_ == 0 && !(finite), attempt_++)              \
        for (int once_ = 1, careful = attempt_; once_; once_ = 0)
