/* How many inner tiles a forward pass visits, and how many there are, for each outer tile of its launch. */
__kernel ENGINE_ATTRIBUTES void attention_count_tiles(ATTENTION_PARAMETERS)
{
    ATTENTION_ARGUMENTS;
    GROUP(g);
    const place at = place_of(&a, g.tile, false, params->heads_q);
    const sequence s = sequence_of(&a, at.b, at.h, false);
    const rules r = rules_of(&a, &s);
    const range keys = inner_rows(&s, false, at.first);
    int visited = 0;
    FOR_EACH_INNER_TILE (&g, j0, &r, false, at.first, keys)
        visited++;
    /* keys behind a kv length are skipped too; a packed sequence has no others than its own */
    const int all = at.first >= s.queries ? 0 : a.cu_seqlens_q ? s.keys : params->keys;
    if (leads_group(&g)) {
        a.tile_counts[2 * g.tile] = visited;
        a.tile_counts[2 * g.tile + 1] = (all + INNER - 1) / INNER;
    }
    END_GROUP(g);
}
