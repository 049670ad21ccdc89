/* Segments: a query attends to keys of its own id; a negative id attends to nothing and is attended by nothing. */
#if RULE_SEGMENTS
typedef struct {
    __global const int *queries, *keys; /* ids, from the sequence's first row on */
#if STAGES_PAIRS
    const ilanes *staged; /* whether the ids of a tile's pairs are one */
#endif
} segment_rule;

static inline segment_rule segments_locate(const arguments *a, const sequence *s)
{
    const segment_rule rule = {a->q_segments + (long)s->batch * a->p->queries + s->first_query,
                               a->kv_segments + (long)s->batch * a->p->keys + s->first_key};
    return rule;
}

static inline ilanes same_segment(const ilanes id, const ilanes other) { return (id >= 0) & (id == other); }

static inline ilanes segments_attend(const segment_rule *rule, const pair *at)
{
#if STAGES_PAIRS
    return rule->staged[at->score];
#else
    return same_segment(gather_int(rule->queries, TO_LLANES(at->query)),
                        gather_int(rule->keys, TO_LLANES(at->key)));
#endif
}

/* Least and largest id >= 0 of some rows; begin > end if there is none. */
static inline range segment_ids(__global const int *ids, const range rows)
{
    range all = {INT_MAX, -1};
    for (int row = rows.begin; row < rows.end; row++) {
        const int id = ids[row];
        all.begin = id >= 0 ? min(all.begin, id) : all.begin;
        all.end = max(all.end, id);
    }
    return all;
}

/* True if no query of a range can share an id with a key of another. */
static inline bool segments_apart(const segment_rule *rule, const range queries, const range keys)
{
    const range query_ids = segment_ids(rule->queries, queries), key_ids = segment_ids(rule->keys, keys);
    return query_ids.begin > key_ids.end || key_ids.begin > query_ids.end;
}
#endif
