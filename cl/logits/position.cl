/*
 * Which rows belong together: the sequence and head that a tile lies in, where
 * its rows stand in memory, and the band of keys that position alone lets a
 * query see (causal, window, lengths). No masks that need memory for each
 * pair, no arithmetic on logits.
 */

/* One sequence and query head. Query i sees keys i + low <= j <= i + high, 0 <= j < keys; i and j count from the
 * start of the sequence. */
typedef struct {
    int b; /* which sequence, for whatever is drawn or given by sequence */
    int h, h_kv;
    int batch;                  /* batch index in memory: b, or 0 in a packed batch */
    int first_query, first_key; /* rows in memory before the sequence's own: 0 unless packed */
    int queries, keys;
    int low, high;
    bool owned; /* false: rows of a packed batch that no sequence holds */
} sequence;

/* Rows [begin, end). */
typedef struct {
    int begin, end;
} range;

/*
 * Rows of sequence b of a packed batch. What cu_seqlens says is clamped: no
 * value of it leads out of the tensor. The rows before the first sequence and
 * those behind the last belong to "sequences" B and B + 1.
 */
static inline range packed_rows(__global const int *cu_seqlens, const int b, const int batch, const int total)
{
    const int begin = b < batch ? cu_seqlens[b] : b == batch ? 0 : cu_seqlens[batch];
    const int end = b < batch ? cu_seqlens[b + 1] : b == batch ? cu_seqlens[0] : total;
    range rows;
    rows.begin = clamp(begin, 0, total);
    rows.end = clamp(end, rows.begin, total);
    return rows;
}

static inline void take_packed_rows(const arguments *a, const bool keys_outer, sequence *s)
{
    __global const struct attention_params *p = a->p;
    s->owned = s->b < p->batch;
    const range queries = packed_rows(a->cu_seqlens_q, s->b, p->batch, p->queries);
    const range keys = packed_rows(a->cu_seqlens_k, s->b, p->batch, p->keys);
    s->batch = 0;
    s->first_query = queries.begin;
    s->first_key = keys.begin;
    s->queries = s->owned || !keys_outer ? queries.end - queries.begin : 0;
    s->keys = s->owned || keys_outer ? keys.end - keys.begin : 0;
}

/* keys_outer: the caller's tiles are of keys; it decides what the rows that no sequence holds are rows of. */
static inline sequence sequence_of(const arguments *a, const int b, const int h, const bool keys_outer)
{
    __global const struct attention_params *p = a->p;
    /* without query heads there are key heads all the same */
    sequence s = {b, h, h / max(1, p->heads_per_kv), b, 0, 0, p->queries, p->keys, 0, 0, true};
    if (a->kv_lengths)
        s.keys = clamp(a->kv_lengths[b], 0, p->keys);
    if (a->cu_seqlens_q)
        take_packed_rows(a, keys_outer, &s);
    const int diagonal = p->diagonal_top_left ? 0 : s.keys - s.queries;
    s.low = diagonal - p->left;
    s.high = diagonal + p->right;
    return s;
}

/* Elements of a [B,H,M,N] tensor before the pair (0, 0) of a sequence and head. */
static inline long pair_offset(__global const struct axis_strides *stride, const sequence *s)
{
    return s->batch * stride->batch + s->h * stride->head + s->first_query * stride->row +
           s->first_key * stride->column;
}

/* The keys that queries [first, last] may see, and the queries that may see keys [first, last]. */
static inline range keys_seen_by(const sequence *s, const int first, const int last)
{
    const range keys = {max(0, first + s->low), min(s->keys, last + s->high + 1)};
    return keys;
}
static inline range queries_that_see(const sequence *s, const int first, const int last)
{
    const range queries = {max(0, first - s->high), first < s->keys ? min(s->queries, last - s->low + 1) : 0};
    return queries;
}

/* True if every query of [i0, i0 + rows) sees every key of [j0, j0 + columns). */
static inline bool all_seen(const sequence *s, const int i0, const int rows, const int j0, const int columns)
{
    return i0 >= 0 && j0 >= 0 && i0 + rows <= s->queries && j0 + columns <= s->keys &&
           j0 >= i0 + rows - 1 + s->low && j0 + columns - 1 <= i0 + s->high;
}

/* The rule of all_seen for one pair: what position alone says. */
static inline ilanes position_attends(const sequence *s, const ilanes query, const ilanes key)
{
    return (query >= 0) & (query < s->queries) & (key >= 0) & (key < s->keys) & (key >= query + s->low) &
           (key <= query + s->high);
}
