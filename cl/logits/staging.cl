/*
 * What the rules read from memory for each pair of a tile, brought to hand by
 * the engine, where it wants that, before the rules are applied.
 */

static inline pair_tile pair_tile_at(const sequence *s, const bool keys_outer, const int outer_first,
                                     const int inner_first)
{
    const pair_tile tile = {keys_outer, outer_first, inner_first, keys_outer ? s->keys : s->queries,
                            keys_outer ? s->queries : s->keys};
    return tile;
}

#if STAGES_PAIRS && (RULE_SEGMENTS || RULE_BLOCK_MASK)
/* The outer rows of a slot, and an inner row, moved into the sequence. */
static inline ilanes outer_inside_sequence(const group *g, const pair_tile *tile, const int slot)
{
    return clamp(tile->outer_first + outer_row(g, slot), 0, tile->outer_rows - 1);
}
static inline int inner_inside_sequence(const pair_tile *tile, const int inner)
{
    return clamp(tile->inner_first + inner, 0, tile->inner_rows - 1);
}
#endif

#if STAGES_PAIRS && RULE_SEGMENTS
static inline void stage_segments(const group *g, segment_rule *rule, ilanes *room, const pair_tile *tile)
{
    __global const int *outer = tile->keys_outer ? rule->keys : rule->queries,
                       *inner = tile->keys_outer ? rule->queries : rule->keys;
    ilanes ids[OUTER_SLOTS];
    FOR_EACH_SLOT (slot)
        ids[slot] = gather_int(outer, TO_LLANES(outer_inside_sequence(g, tile, slot)));
    FOR_EACH_SCORE (g, e, slot, j)
        room[e] = same_segment(ids[slot], TO_ILANES(inner[inner_inside_sequence(tile, j)]));
    rule->staged = room;
}
#endif

#if STAGES_PAIRS && RULE_BLOCK_MASK
/* Kinds change only from block to block of the inner rows. */
static inline void stage_blocks(const group *g, block_rule *rule, ilanes *room, const pair_tile *tile)
{
    const bool keys = tile->keys_outer;
    const int outer_block = keys ? rule->block_columns : rule->block_rows,
              inner_block = keys ? rule->block_rows : rule->block_columns;
    const int outer_before = keys ? rule->first_key : rule->first_query,
              inner_before = keys ? rule->first_query : rule->first_key;
    const long outer_step = keys ? rule->column : rule->row, inner_step = keys ? rule->row : rule->column;
    llanes at[OUTER_SLOTS];
    ilanes kinds[OUTER_SLOTS];
    FOR_EACH_SLOT (slot)
        at[slot] =
            TO_LLANES((outer_inside_sequence(g, tile, slot) + outer_before) / outer_block) * outer_step;
    int last = -1;
    FOR_EACH_SCORE (g, e, slot, j) {
        const int block = (inner_inside_sequence(tile, j) + inner_before) / inner_block;
        if (block != last || e < OUTER_SLOTS)
            kinds[slot] = gather_byte(rule->base + block * inner_step, at[slot]);
        last = slot == OUTER_SLOTS - 1 ? block : last;
        room[e] = kinds[slot];
    }
    rule->staged = room;
}
#endif

typedef struct {
#if RULE_MASK
    byte_room mask;
#endif
#if RULE_BIAS
    bias_room bias;
#if HAS_TBIAS
    bias_room tbias[TANGENT_ARRAY];
#endif
#endif
#if STAGES_PAIRS && RULE_SEGMENTS
    ilanes segments[SCORES];
#endif
#if STAGES_PAIRS && RULE_BLOCK_MASK
    ilanes blocks[SCORES];
#endif
    char unused;
} pair_rooms;

/* The rules as they stand for a tile. */
static inline rules rules_in_tile(const group *g, const rules *r, const pair_tile *tile, pair_rooms *rooms)
{
    rules here = *r;
#if STAGES_PAIRS && RULE_SEGMENTS
    stage_segments(g, &here.segments, rooms->segments, tile);
#endif
#if STAGES_PAIRS && RULE_BLOCK_MASK
    stage_blocks(g, &here.blocks, rooms->blocks, tile);
#endif
#if RULE_MASK
    STAGE_BYTES(g, &here.mask, rooms->mask, tile);
#endif
#if RULE_BIAS
    STAGE_BIAS(g, &here.bias.bias, rooms->bias, tile);
#if HAS_TBIAS
    for (int t = 0; t < TANGENTS; t++)
        STAGE_BIAS(g, &here.bias.tangent[t], rooms->tbias[t], tile);
#endif
#endif
    return here;
}
