/*
 * Engine "nv_wgmma": NVIDIA's compute capability 9.0 (Hopper). Warpgroups of
 * 128 work-items: one loads, WARPGROUPS hold 64 outer rows each and multiply
 * by wgmma. A work-group goes over many tiles, so that the next one's loads run
 * under this one's end. No algorithm in here.
 *
 *      memory --TMA-->  ring of RING inner tiles       held outer tiles
 *                       [INNER x dim] each             [OUTER x dim] each
 *                               |  wgmma                     |
 *        row g     +---+---+----+-----                       v
 *                  | 0 1 | 4 5 | ...      accumulators of one work-item: of rows g and g + 8 of its
 *        row g + 8 | 2 3 | 6 7 | ...      warp's 16 the columns 2 q, 2 q + 1 of every 8
 *                  +---+---+----+-----    (lane = 4 g + q; scores and outputs alike)
 *
 * One text runs in both roles. The words have two meanings: to the one
 * work-item that LOADS, a product is its inner tiles put into the ring, and
 * loops over scores, slots and outputs have no turns; to those that MULTIPLY it
 * is a wait for the tiles, wgmma, and the tiles given back. So both walk over
 * the same tiles in the same order, whatever the rules say. A third role,
 * ALONE, needs no loader and no tensor map: plain loops over memory, for the
 * careful pass and for what a map cannot express.
 */
#ifndef INNER
#define INNER 64 /* inner rows a step */
#endif
#ifndef WARPGROUPS
#define WARPGROUPS 2 /* that multiply */
#endif
#ifndef RING
#define RING 4 /* inner tiles in local memory */
#endif
#ifndef TAKES_TURNS
/* Warpgroups at the matrix units: 1 with scores, 2 from values to the next scores, one by one. */
#define TAKES_TURNS 2
#endif

#define OUTER (64 * WARPGROUPS)
#define OUTER_SLOTS 2
#define SCORES (INNER / 2)
#define OUTPUTS(dim_class) ((dim_class) / 2)
#define ENGINE_ATTRIBUTES __attribute__((reqd_work_group_size(128 * (WARPGROUPS + 1), 1, 1)))
#define UNROLL_FOR _Pragma("unroll") for
#define UNROLL_LIST_FOR UNROLL_FOR
#define ENGINE_SPLITS_PLAIN_TILES 1
#define ENGINE_IS_CAREFUL_APART 1
#define ENGINE_ROUNDS_WEIGHTS 0 /* they are, but sums of the rounded ones cost more than they give */
#define ROUND_WEIGHT(x) (x)
#ifndef ENGINE_LOOKS_AHEAD
#define ENGINE_LOOKS_AHEAD (TANGENTS == 0) /* with tangents, scores of two tiles leave no registers */
#endif
/* Weights are rounded to the type of the matrices: under f16 they, and weights times tangents, use more of its range if
 * the largest is 2^6 and not 1. */
#if IN_TYPE == TYPE_F16
#define BASE_BELOW 4.16f
#define LAZY_RISE 2.77f /* ln 2^4: rows are rescaled when their maximum has grown by this */
#else
#define BASE_BELOW 0
#define LAZY_RISE 5.54f /* ln 2^8 */
#endif

/* Registers a work-item, of the 65536 of a compute unit. */
#if WARPGROUPS == 2
#define MULTIPLIER_REGISTERS 240
#else
#define MULTIPLIER_REGISTERS 160
#endif
#if WARPGROUPS == 2
#define LOADER_REGISTERS 24
#else
#define LOADER_REGISTERS 32
#endif

/* Local memory: held tiles, the ring, barriers. Rows lie in pieces of 64 elements (128 bytes), a piece of all rows
 * after the other. */
#define PIECE 64
#define PIECES(dim_class) (((dim_class) + PIECE - 1) / PIECE)
#define WIDEST_CLASS (HEAD_DIM_CLASS > HEAD_DIM_V_CLASS ? HEAD_DIM_CLASS : HEAD_DIM_V_CLASS)
#define PIECE_BYTES(rows) ((rows)*2 * PIECE)
#define HELD_TILES (1 + HAS_TQ * TANGENTS)
#define HELD_BYTES (PIECES(HEAD_DIM_CLASS) * PIECE_BYTES(OUTER))
#define INNER_BYTES (PIECES(WIDEST_CLASS) * PIECE_BYTES(INNER))
#define RING_AT (HELD_TILES * HELD_BYTES)
#define BARRIERS_AT (RING_AT + RING * INNER_BYTES)
#define SHARED_BYTES (BARRIERS_AT + 16 * (RING + HELD_TILES))

#define LOADS 0
#define MULTIPLIES 1
#define ALONE 2

/* Where a role stands in the ring and among the tiles. */
typedef struct {
    int next;     /* the ring's next tile to be loaded, or read */
    uint parity;  /* of the times that `next` went round */
    int oldest;   /* the oldest tile read and not yet given back */
    int held;     /* outer tiles of this tile so far */
    uint tiles;   /* parity of the tiles done */
    bool my_turn; /* at the matrix units */
} progress;

typedef int tile_number; /* a division of long is a loop; the host sees to it that int will do */

/* The work-group as a work-item sees it. */
typedef struct {
    tile_number tile; /* which tile of the launch this is */
    int role;
    bool fed;      /* tiles can be loaded by maps; else the whole launch is ALONE */
    int warpgroup; /* of those that multiply */
    int row;       /* the outer row of slot 0 */
    int column;    /* of score and output 0 */
    uint memory;   /* local memory, as PTX has it */
    __global const uint *maps;
    progress *at;
} group;

static inline group group_of(const tile_number tile, const int role, const bool fed, const uint memory,
                             __global const uint *maps, progress *at)
{
    const int item = (int)get_local_id(0) - 128, lane = item & 31;
    const group g = {tile,           role,   fed,  item >> 7, (item >> 5) * 16 + (lane >> 2),
                     (lane & 3) * 2, memory, maps, at};
    return g;
}

/* A work-group a tile, without a loader. */
#define GROUP(g) const group g = group_of(get_group_id(0), ALONE, false, 0, 0, 0)
#define END_GROUP(g)

#define FOR_EACH_SLOT(slot) UNROLL_FOR (int slot = 0; slot < 2; slot++)
/* Accumulators of a row of `columns`: element e, slot, and the column by which it is called. */
#define FOR_EACH_ACCUMULATOR(g, e, slot, column_, columns)                                                   \
    if ((g)->role == LOADS)                                                                                  \
        ;                                                                                                    \
    else                                                                                                     \
        UNROLL_FOR (int slot = 0; slot < 2; slot++)                                                          \
            UNROLL_FOR (int n_ = 0; n_ < (columns) / 4; n_++)                                                \
                for (int e = (n_ & ~1) * 2 + slot * 2 + (n_ & 1),                                            \
                         column_ = (n_ >> 1) * 8 + (n_ & 1) + (g)->column, once_ = 1;                        \
                     once_; once_ = 0)
#define FOR_EACH_SCORE(g, e, slot, inner) FOR_EACH_ACCUMULATOR(g, e, slot, inner, INNER)
#define FOR_EACH_OUTPUT(g, e, slot, d, dim_class) FOR_EACH_ACCUMULATOR(g, e, slot, d, dim_class)

static inline ilanes outer_row(const group *g, const int slot) { return g->row + 8 * slot; }
/* True for the one work-item of a row that writes what there is once a row. */
static inline bool owns_slots(const group *g) { return g->role != LOADS && g->column == 0; }
/* True for one work-item of the group. */
static inline bool leads_group(const group *g) { return g->row == 0 && g->column == 0; }
static inline bool is_fed(const group *g) { return g->fed; }
static inline group careful_group(const group *g)
{
    group alone = *g;
    alone.role = ALONE;
    return alone;
}

/* ---- barriers ---- */

static inline uint ring_full(const group *g, const int n) { return g->memory + BARRIERS_AT + 8 * n; }
static inline uint ring_empty(const group *g, const int n) { return ring_full(g, RING + n); }
static inline uint held_full(const group *g, const int n) { return ring_full(g, 2 * RING + n); }
static inline uint held_empty(const group *g, const int n) { return held_full(g, HELD_TILES + n); }
static inline uint held_tile(const group *g, const int n) { return g->memory + n * HELD_BYTES; }
static inline uint ring_tile(const group *g, const int n) { return g->memory + RING_AT + n * INNER_BYTES; }

static inline void init_barriers(const group *g)
{
    for (int n = 0; n < RING; n++) {
        barrier_init(ring_full(g, n), 1);
        barrier_init(ring_empty(g, n), 4 * WARPGROUPS);
    }
    for (int n = 0; n < HELD_TILES; n++) {
        barrier_init(held_full(g, n), 1);
        barrier_init(held_empty(g, n), 4 * WARPGROUPS);
    }
    publish_shared();
}

/* One arrival a warp. */
static inline void give_back(const uint barrier)
{
    if ((get_local_id(0) & 31) == 0)
        barrier_arrive(barrier);
}

static inline void advance(const group *g)
{
    g->at->next = g->at->next == RING - 1 ? 0 : g->at->next + 1;
    g->at->parity ^= g->at->next == 0;
}

/* ---- turns at the matrix units: one warpgroup uses them while the others do arithmetic ---- */

static inline void take_turn(const group *g)
{
    if (TAKES_TURNS && !g->at->my_turn)
        named_sync(1 + g->warpgroup, 256);
    g->at->my_turn = true;
}
static inline void end_turn(const group *g)
{
    if (TAKES_TURNS && g->at->my_turn)
        named_arrive(1 + (g->warpgroup == WARPGROUPS - 1 ? 0 : g->warpgroup + 1), 256);
    g->at->my_turn = false;
}
static inline void begin_turns(const group *g)
{
    if (TAKES_TURNS && g->warpgroup == 0)
        named_arrive(1, 256);
}
static inline void end_turns(const group *g)
{
    if (TAKES_TURNS && g->warpgroup == 0)
        named_sync(1, 256);
}

/* ---- loading ---- */

/* The tensors that tiles are loaded from; each has a map. */
static inline int map_of(const int slot)
{
    return slot == SLOT_Q    ? 0
           : slot == SLOT_K  ? 1
           : slot == SLOT_V  ? 2
           : slot == SLOT_TQ ? 3
           : slot == SLOT_TK ? 4
                             : 5;
}
#define MAPS (TANGENTS ? 6 : 3)

static inline void write_map(const arguments *a, const int slot, __global const in_t *data, const int dims,
                             const bool keys)
{
    __global const struct attention_params *p = a->p;
    __global const struct axis_strides *stride = &p->strides[slot];
    const struct tensor_map map = {
        (ulong)data,
        {dims, keys ? p->keys : p->queries, keys ? p->heads_kv : p->heads_q, p->batch_stored,
         slot >= SLOT_TQ ? a->tangent_first + TANGENTS : 1},
        {2 * stride->row, 2 * stride->head, 2 * stride->batch, 2 * stride->tangent},
        {PIECE, keys ? INNER : OUTER, 1, 1, 1},
        IN_TYPE == TYPE_BF16 ? TENSOR_MAP_BF16 : TENSOR_MAP_F16};
    __global uint *to = a->tensor_maps + map_of(slot) * TENSOR_MAP_WORDS;
    UNROLL_FOR (int n = 0; n < TENSOR_MAP_WORDS; n++)
        to[n] = tensor_map_word(&map, n);
    publish_map(to);
}

/* All work-groups write the same. */
static inline void write_maps(const arguments *a)
{
    write_map(a, SLOT_Q, a->q, a->p->head_dim, false);
    write_map(a, SLOT_K, a->k, a->p->head_dim, true);
    write_map(a, SLOT_V, a->v, a->p->head_dim_v, true);
#if HAS_TQ
    write_map(a, SLOT_TQ, a->tq, a->p->head_dim, false);
#endif
#if HAS_TK
    write_map(a, SLOT_TK, a->tk, a->p->head_dim, true);
#endif
#if HAS_TV
    write_map(a, SLOT_TV, a->tv, a->p->head_dim_v, true);
#endif
}

/* Where a call's tensors start is known only to the call. */
static inline bool maps_can_express(const arguments *a)
{
    return (((ulong)a->q | (ulong)a->k | (ulong)a->v | (ulong)a->tq | (ulong)a->tk | (ulong)a->tv) & 15) == 0;
}

static inline void load_tile(const group *g, const view *from, const int rows, const int pieces,
                             const uint to, const uint barrier)
{
    __global const uint *map = g->maps + map_of(from->slot) * TENSOR_MAP_WORDS;
    barrier_expect(barrier, pieces * PIECE_BYTES(rows));
    UNROLL_FOR (int n = 0; n < pieces; n++)
        load_box(to + n * PIECE_BYTES(rows), map, barrier, n * PIECE, from->row, from->h, from->b, from->t);
}

static inline void load_inner(const group *g, const view *from, const int pieces)
{
    const int n = g->at->next;
    barrier_wait(ring_empty(g, n), g->at->parity ^ 1);
    load_tile(g, from, INNER, pieces, ring_tile(g, n), ring_full(g, n));
    advance(g);
}

/* The ring's next tile, once it is there. */
static inline uint next_inner(const group *g)
{
    const int n = g->at->next;
    barrier_wait(ring_full(g, n), g->at->parity);
    advance(g);
    return ring_tile(g, n);
}

/* Waits for the ring's next tile and leaves it there. A branch before the wait for products also keeps ptxas from
 * moving arithmetic, which should run beside them, behind it. */
static inline void await_next_rows(const group *g)
{
    if (g->role == MULTIPLIES)
        barrier_wait(ring_full(g, g->at->next), g->at->parity);
}

static inline void give_back_inner(const group *g)
{
    give_back(ring_empty(g, g->at->oldest));
    g->at->oldest = g->at->oldest == RING - 1 ? 0 : g->at->oldest + 1;
}

typedef struct {
    view rows;
    int number; /* among the tiles held */
} held;

static inline void hold(const group *g, const view outer, held *to)
{
    to->rows = outer;
    if (g->role == ALONE)
        return;
    const int n = g->at->held++;
    to->number = n;
    if (g->role == MULTIPLIES) {
        barrier_wait(held_full(g, n), g->at->tiles);
    } else {
        barrier_wait(held_empty(g, n), g->at->tiles ^ 1);
        load_tile(g, &outer, OUTER, PIECES(HEAD_DIM_CLASS), held_tile(g, n), held_full(g, n));
    }
}

/* What is held is not needed any more. */
static inline void let_go(const group *g)
{
    if (g->role != MULTIPLIES)
        return;
    end_turn(g);
    for (int n = 0; n < HELD_TILES; n++)
        give_back(held_empty(g, n));
}

/* ---- the launch ---- */

static inline void begin_tile(progress *at) { at->held = 0; }
static inline void end_tile(progress *at) { at->tiles ^= 1; }

#define WALK_TILES(function, a, count, role)                                                                 \
    for (tile_number tile_ = get_group_id(0); tile_ < (count); tile_ += (tile_number)get_num_groups(0)) {    \
        const group g_ = group_of(tile_, role, (role) == LOADS || fed_, memory_, (a)->tensor_maps, &at_);    \
        begin_tile(&at_);                                                                                    \
        function(a, &g_);                                                                                    \
        end_tile(&at_);                                                                                      \
    }

#define FOR_EACH_TILE(function, a, tiles)                                                                    \
    __local uchar group_memory[SHARED_BYTES] __attribute__((aligned(1024)));                                 \
    const uint memory_ = shared_address(group_memory);                                                       \
    const tile_number tiles_ = tiles;                                                                        \
    const bool fed_ = maps_can_express(a);                                                                   \
    progress at_ = {0, 0, 0, 0, 0, false};                                                                   \
    const group whole_ = group_of(0, MULTIPLIES, fed_, memory_, 0, &at_);                                    \
    if (get_local_id(0) == 0)                                                                                \
        init_barriers(&whole_);                                                                              \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                            \
    if (get_local_id(0) < 128) {                                                                             \
        GIVE_REGISTERS_(LOADER_REGISTERS);                                                                   \
        if (get_local_id(0) == 0 && fed_) {                                                                  \
            write_maps(a);                                                                                   \
            WALK_TILES(function, a, tiles_, LOADS)                                                           \
        }                                                                                                    \
    } else {                                                                                                 \
        TAKE_REGISTERS_(MULTIPLIER_REGISTERS);                                                               \
        begin_turns(&whole_);                                                                                \
        WALK_TILES(function, a, tiles_, MULTIPLIES)                                                          \
        end_turns(&whole_);                                                                                  \
    }
#define GIVE_REGISTERS_(n) GIVE_REGISTERS(n)
#define TAKE_REGISTERS_(n) TAKE_REGISTERS(n)

/* ---- rows ---- */

static inline void group_barrier(const group *g) {}

/* The four work-items of a row are neighbours. */
static inline void reduce_maximum(const group *g, lanes *slots)
{
    if (g->role != LOADS)
        FOR_EACH_SLOT (slot) {
            slots[slot] = larger(slots[slot], shuffle_xor(slots[slot], 1));
            slots[slot] = larger(slots[slot], shuffle_xor(slots[slot], 2));
        }
}
static inline void reduce_sum(const group *g, lanes *slots)
{
    if (g->role != LOADS)
        FOR_EACH_SLOT (slot) {
            slots[slot] += shuffle_xor(slots[slot], 1);
            slots[slot] += shuffle_xor(slots[slot], 2);
        }
}

/* A warp owns its rows and needs no other: what holds for one of its work-items decides for the warp. */
static inline bool group_any(const group *g, const bool condition)
{
    return g->role == LOADS ? false : warp_any(condition);
}
