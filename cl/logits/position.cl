/*
 * Which rows belong together: the batch element and head that a tile lies in,
 * the lengths of its sequence, and the band of keys that position alone lets
 * a query see (causal, window, lengths). No masks that need memory, no
 * arithmetic on logits.
 */

/* One batch element and query head. Query i sees keys i + low <= j <= i + high, 0 <= j < keys. */
typedef struct {
    int b, h, h_kv;
    int queries, keys;
    int low, high;
} sequence;

static inline sequence sequence_of(const arguments *a, const int b, const int h)
{
    __global const struct attention_params *p = a->p;
    sequence s = {b, h, h / p->heads_per_kv, p->queries, p->keys, 0, 0};
    if (a->kv_lengths)
        s.keys = clamp(a->kv_lengths[b], 0, p->keys);
    const int diagonal = p->diagonal_top_left ? 0 : s.keys - s.queries;
    s.low = diagonal - p->left;
    s.high = diagonal + p->right;
    return s;
}

/* Rows [begin, end) of the inner tensor. */
typedef struct {
    int begin, end;
} range;

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
    return i0 + rows <= s->queries && j0 + columns <= s->keys && j0 >= i0 + rows - 1 + s->low &&
           j0 + columns - 1 <= i0 + s->high;
}

/* The rule of all_seen for one pair: what position alone says. */
static inline ilanes position_attends(const sequence *s, const ilanes query, const ilanes key)
{
    return (query < s->queries) & (key < s->keys) & (key >= query + s->low) & (key <= query + s->high);
}
