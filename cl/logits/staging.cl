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
    char unused;
} pair_rooms;

/* The rules as they stand for a tile. */
static inline rules rules_in_tile(const group *g, const rules *r, const pair_tile *tile, pair_rooms *rooms)
{
    rules here = *r;
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
