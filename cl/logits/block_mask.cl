/*
 * Block mask: a map over blocks of bm queries and bn keys. 0 skips a block, 1
 * attends without reading the boolean mask, 2 attends as the boolean mask says.
 */
#if RULE_BLOCK_MASK
typedef struct {
    __global const uchar *base;
    long row, column;
    int block_rows, block_columns;
    int first_query, first_key; /* blocks are counted in memory, also in a packed batch */
#if STAGES_PAIRS
    const ilanes *staged; /* the kinds of a tile's pairs */
#endif
} block_rule;

static inline block_rule block_locate(const arguments *a, const sequence *s)
{
    __global const struct axis_strides *stride = &a->p->strides[SLOT_BLOCK_MASK];
    const block_rule rule = {a->block_mask + s->batch * stride->batch + s->h * stride->head,
                             stride->row,
                             stride->column,
                             a->p->block_rows,
                             a->p->block_columns,
                             s->first_query,
                             s->first_key};
    return rule;
}

/* 0, 1 or 2 */
static inline ilanes block_kind(const block_rule *rule, const pair *at)
{
#if STAGES_PAIRS
    return rule->staged[at->score];
#else
    return gather_byte(rule->base,
                       TO_LLANES((at->query + rule->first_query) / rule->block_rows) * rule->row +
                           TO_LLANES((at->key + rule->first_key) / rule->block_columns) * rule->column);
#endif
}

/* True if every block that holds a pair of queries x keys is skipped. */
static inline bool blocks_empty(const block_rule *rule, const range queries, const range keys)
{
    const int top = (queries.begin + rule->first_query) / rule->block_rows;
    const int bottom = (queries.end - 1 + rule->first_query) / rule->block_rows;
    const int left = (keys.begin + rule->first_key) / rule->block_columns;
    const int right = (keys.end - 1 + rule->first_key) / rule->block_columns;
    for (int row = top; row <= bottom; row++)
        for (int column = left; column <= right; column++)
            if (rule->base[row * rule->row + column * rule->column])
                return false;
    return true;
}
#endif
