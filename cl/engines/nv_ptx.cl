/*
 * Instructions of NVIDIA's sm_90 that OpenCL C has no words for. Knows no
 * tiles. A line behind the mark //@ needs sm_90a, which NVIDIA's OpenCL does
 * not compile for: it is a comment until the host has taken the mark out of the
 * program's binary, which is PTX text (src/ptx.c).
 */
static inline uint shared_address(__local const void *p) { return (uint)(ulong)p; }

/* ---- barriers in shared memory: `count` arrivals, and all bytes expected, complete a phase ---- */

static inline void barrier_init(const uint barrier, const uint count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
static inline void barrier_arrive(const uint barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
static inline void barrier_expect(const uint barrier, const uint bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}
/* Waits until the phase of this parity is complete; parity 1 of a new barrier is. */
static inline void barrier_wait(const uint barrier, const uint parity)
{
#ifdef TRAP_IF_STUCK
    for (uint n = 0;; n++) {
        uint done;
        asm volatile(
            "{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
            : "=r"(done)
            : "r"(barrier), "r"(parity)
            : "memory");
        if (done)
            return;
        if (n > 400000)
            asm volatile("trap;");
    }
#else
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "WAIT:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@p bra DONE;\n"
                 "bra WAIT;\n"
                 "DONE:\n"
                 "}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
#endif
}

/* ---- named barriers of work-items, 1 .. 15 ---- */

static inline void named_sync(const uint name, const uint items)
{
    asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(items) : "memory");
}
static inline void named_arrive(const uint name, const uint items)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(name), "r"(items) : "memory");
}

/* ---- the copy engine ---- */

/* Loads the box at (x, row, h, b, t) of a mapped tensor; its bytes count towards `barrier`. */
static inline void load_box(const uint to, __global const uint *map, const uint barrier, const int x,
                            const int row, const int h, const int b, const int t)
{
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(to),
                 "l"((ulong)map), "r"(barrier), "r"(x), "r"(row), "r"(h), "r"(b), "r"(t)
                 : "memory");
}
/* What this work-item wrote to a map is what its loads will see. */
static inline void publish_map(__global const uint *map)
{
    asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"((ulong)map) : "memory");
}
/* What was written by ordinary means is what the copy engine and the matrix units will see. */
static inline void publish_shared(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/* ---- warps ---- */

static inline float shuffle_xor(const float x, const int mask)
{
    float y;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(y) : "f"(x), "r"(mask));
    return y;
}
static inline float shuffle_from(const float x, const int lane)
{
    float y;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(y) : "f"(x), "r"(lane));
    return y;
}
static inline bool warp_any(const bool condition)
{
    int any;
    asm volatile(
        "{.reg .pred p, q; setp.ne.b32 p, %1, 0; vote.sync.any.pred q, p, 0xffffffff; selp.b32 %0, 1, 0, q;}"
        : "=r"(any)
        : "r"((int)condition));
    return any != 0;
}

/* Registers move between warpgroups. */
#define GIVE_REGISTERS(keep) asm volatile("//@setmaxnreg.dec.sync.aligned.u32 " #keep ";")
#define TAKE_REGISTERS(all) asm volatile("//@setmaxnreg.inc.sync.aligned.u32 " #all ";")

/* ---- numbers ---- */

#if IN_TYPE == TYPE_BF16
#define MATRIX_TYPE "bf16"
#else
#define MATRIX_TYPE "f16"
#endif

/* Two numbers rounded to the type of the matrices, `low` in the lower half. */
static inline uint pack_pair(const float low, const float high)
{
    uint pair;
    asm("cvt.rn." MATRIX_TYPE "x2.f32 %0, %2, %1;" : "=r"(pair) : "f"(low), "f"(high));
    return pair;
}

/*
 * ---- wgmma: a warpgroup multiplies 64 rows by n columns over a depth of 16 ----
 *
 * The n / 2 accumulators of a work-item are registers that an instruction
 * names one by one, so there is a function for each n:
 *     wgmma_rows_N     sum (+)= A B^T: both in shared memory, rows along the depth
 *     wgmma_values_N   sum += A B: A from registers, B's rows across the depth
 *     wgmma_wait_N     all are done: from here on the accumulators may be read
 *     wgmma_wait_older_N   all but those committed last are
 */
#define REGISTERS_4(x, i) "+f"((x)[i]), "+f"((x)[(i) + 1]), "+f"((x)[(i) + 2]), "+f"((x)[(i) + 3])
#define REGISTERS_16(x, i)                                                                                   \
    REGISTERS_4(x, i), REGISTERS_4(x, (i) + 4), REGISTERS_4(x, (i) + 8), REGISTERS_4(x, (i) + 12)
#define REGISTERS_32(x, i) REGISTERS_16(x, i), REGISTERS_16(x, (i) + 16)
#define REGISTERS_40(x, i) REGISTERS_32(x, i), REGISTERS_4(x, (i) + 32), REGISTERS_4(x, (i) + 36)
#define REGISTERS_48(x, i) REGISTERS_32(x, i), REGISTERS_16(x, (i) + 32)
#define REGISTERS_64(x, i) REGISTERS_32(x, i), REGISTERS_32(x, (i) + 32)
#define REGISTERS_128(x, i) REGISTERS_64(x, i), REGISTERS_64(x, (i) + 64)

#define PLACES_16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define PLACES_32 PLACES_16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define PLACES_40 PLACES_32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define PLACES_48 PLACES_40 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define PLACES_64 PLACES_48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define PLACES_80 PLACES_64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define PLACES_96 PLACES_80 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define PLACES_112 PLACES_96 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define PLACES_128                                                                                           \
    PLACES_112 ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

/* p0 .. p4: the places behind the accumulators. One line of PTX each: the mark hides a line. */
#define DEFINE_WGMMA(n, registers, p0, p1, p2, p3, p4)                                                       \
    static inline void wgmma_rows_##n(float *sum, const ulong a, const ulong b, const int adds)              \
    {                                                                                                        \
        asm volatile("//@{.reg .pred p; setp.ne.b32 p, " p2 ", 0; wgmma.mma_async.sync.aligned.m64n" #n      \
                     "k16.f32." MATRIX_TYPE "." MATRIX_TYPE " {" PLACES_##registers "}, " p0 ", " p1         \
                                                                                    ", p, 1, 1, 0, 0;}"      \
                     : REGISTERS_##registers(sum, 0)                                                         \
                     : "l"(a), "l"(b), "r"(adds)                                                             \
                     : "memory");                                                                            \
    }                                                                                                        \
    static inline void wgmma_values_##n(float *sum, const uint *a, const ulong b)                            \
    {                                                                                                        \
        asm volatile("//@{.reg .pred p; setp.eq.b32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n" #n           \
                     "k16.f32." MATRIX_TYPE "." MATRIX_TYPE " {" PLACES_##registers                          \
                     "}, {" p0 ", " p1 ", " p2 ", " p3 "}, " p4 ", p, 1, 1, 1;}"                             \
                     : REGISTERS_##registers(sum, 0)                                                         \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)                                    \
                     : "memory");                                                                            \
    }                                                                                                        \
    static inline void wgmma_wait_##n(float *sum)                                                            \
    {                                                                                                        \
        asm volatile("//@wgmma.wait_group.sync.aligned 0;" : REGISTERS_##registers(sum, 0)::"memory");       \
    }                                                                                                        \
    static inline void wgmma_wait_older_##n(float *sum)                                                      \
    {                                                                                                        \
        asm volatile("//@wgmma.wait_group.sync.aligned 1;" : REGISTERS_##registers(sum, 0)::"memory");       \
    }
DEFINE_WGMMA(32, 16, "%16", "%17", "%18", "%19", "%20")
DEFINE_WGMMA(64, 32, "%32", "%33", "%34", "%35", "%36")
DEFINE_WGMMA(80, 40, "%40", "%41", "%42", "%43", "%44")
DEFINE_WGMMA(96, 48, "%48", "%49", "%50", "%51", "%52")
DEFINE_WGMMA(128, 64, "%64", "%65", "%66", "%67", "%68")
DEFINE_WGMMA(256, 128, "%128", "%129", "%130", "%131", "%132")

#define WGMMA_NAME_(word, n) wgmma_##word##_##n
#define WGMMA_NAME(word, n) WGMMA_NAME_(word, n)

/* Before the first product of accumulators or operands that were written as registers. */
static inline void wgmma_begin(void) { asm volatile("//@wgmma.fence.sync.aligned;" ::: "memory"); }
static inline void wgmma_commit(void) { asm volatile("//@wgmma.commit_group.sync.aligned;" ::: "memory"); }

/* How wgmma sees a tile of 128-byte rows, swizzled, `address` a multiple of 1024 and a step of depth: a group of 8 rows
 * every 1024 bytes. Steps of 16 along rows are 32 bytes apart; across them, 2048. */
#define DESCRIPTOR(address, columns_apart)                                                                   \
    (1UL << 62 | 64UL << 32 | (ulong)(columns_apart) << 16 | (address) >> 4)
static inline ulong rows_descriptor(const uint address) { return DESCRIPTOR(address, 1); }
/* columns_apart: bytes from 64 columns to the next. */
static inline ulong values_descriptor(const uint address, const uint columns_apart)
{
    return DESCRIPTOR(address, columns_apart >> 4);
}
