/*
 * Lanes for engines that handle one logit at a time: a work-item's "vector"
 * of logits is a scalar. Engines with real vectors bring their own file with
 * the same names. Logit functions are written in these names only, with ?:,
 * & and | in place of if, so that they hold for both.
 */
typedef real lanes;
typedef int ilanes;
typedef uint ulanes;
typedef long llanes;

#define ALL_LANES 1 /* true in every lane, as a comparison gives it */
#define EVERY_LANE(condition) (condition)
#define TO_LANES(x) ((lanes)(x))
#define TO_ILANES(x) ((ilanes)(x))
#define TO_ULANES(x) ((ulanes)(x))
#define TO_LLANES(x) ((llanes)(x))

/* The larger one, or `least` where x is NaN; x but no less than `least`, and NaN where x is; e^x; e^(x - base), where
 * what is EXP_BASE of a base serves many x. An engine may have brought its own. */
#ifndef EXP
#define MAXIMUM(least, x) fmax(least, x)
#define AT_LEAST(least, x) ((x) < (least) ? (least) : (x))
#define EXP(x) exp(x)
#define EXP_BASE(base) (base)
#define EXP_ABOVE(x, prepared_base) exp((x) - (prepared_base))
#endif

static inline lanes gather_real(__global const real *base, const llanes at) { return base[at]; }
static inline ilanes gather_byte(__global const uchar *base, const llanes at) { return base[at]; }

static inline ilanes gather_int(__global const int *base, const llanes at) { return base[at]; }

/* The caller's logit function, compiled into the program, for each lane. */
#define CALL_LOGIT(x, b, h, query, key, data, y, dy, ddy) clattn_logit(x, b, h, query, key, data, y, dy, ddy)

/* What rules read for each pair is read where it stands: nothing is staged. */
#define STAGES_PAIRS 0

/* A tensor with a number for each pair of a sequence. */
typedef struct {
    __global const uchar *base;
    long row, column;
} byte_pairs;
typedef struct {
    __global const bias_t *base;
    long row, column;
} bias_pairs;
typedef char byte_room, bias_room;
#define STAGE_BYTES(g, pairs, room, tile)
#define STAGE_BIAS(g, pairs, room, tile)

/* 0 where the byte is. */
static inline ilanes byte_of_pair(const byte_pairs *from, const int query, const int key, const int e)
{
    return from->base[query * from->row + key * from->column];
}
static inline lanes bias_of_pair(const bias_pairs *from, const int query, const int key, const int e)
{
    return LOAD_BIAS(from->base + query * from->row + key * from->column);
}

/* Stores where `where` holds. */
static inline void scatter_out(__global out_t *base, const llanes at, const lanes value, const ilanes where)
{
    if (where)
        STORE_OUT(value, base + at);
}
static inline void scatter_real(__global real *base, const llanes at, const lanes value, const ilanes where)
{
    if (where)
        base[at] = value;
}

/*
 * A weight of exactly -0 marks a pair that does not attend, as against one whose weight underflowed to +0:
 * careful products leave marked terms out, so that 0 x NaN of a masked key reaches no row.
 */
#define MARK ((real)-0.0f)
#define IS_MARKED(weight) ((weight) == 0 && signbit(weight))
