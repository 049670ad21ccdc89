/*
 * Engines "cpu_amx" and "cpu_dot" on the host: bf16 on the tile registers of
 * x86-64 CPUs with AMX, and by the dot products of those with AVX512-BF16.
 * Kernels reach both through builtins of the compiler in PoCL, so the device
 * has to be the CPU that this process runs on.
 */
#define _GNU_SOURCE /* syscall */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "engines/cpu.h"

#define LANES 16

/* With fewer rows blocks are all but empty; and weights are rounded to bf16, whose errors only a sum over rows evens
 * out where terms cancel. */
#define FEWEST_ROWS 16

/* For tests: CLATTN_AMX=emulated runs the engine on any CPU, with its tiles emulated in OpenCL C. Slow. */
static bool is_emulated(void)
{
    const char *amx = getenv("CLATTN_AMX");
    return amx && strcmp(amx, "emulated") == 0;
}

#if defined(__x86_64__) && defined(__linux__)
/* What cpuid says of this CPU. */
struct abilities {
    bool dot;      /* AVX512-BF16, with what it builds on */
    bool fast_dot; /* at the rate of other multiplications: AMD's; Intel's take longer than two of float */
    bool amx;      /* tiles and their bf16 products */
};

static bool is_made_by_amd(void)
{
    unsigned highest, name[3];
    return __get_cpuid(0, &highest, &name[0], &name[2], &name[1]) && memcmp(name, "AuthenticAMD", 12) == 0;
}

static struct abilities read_abilities(void)
{
    struct abilities has = {false, false, false};
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return has;
    const unsigned avx512f = 1u << 16, avx512dq = 1u << 17, avx512bw = 1u << 30, avx512vl = 1u << 31;
    const unsigned vectors = avx512f | avx512dq | avx512bw | avx512vl;
    const unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24, tiles = amx_bf16 | amx_tile;
    const unsigned avx512_bf16 = 1u << 5;
    const bool has_vectors = (b & vectors) == vectors, has_tiles = (d & tiles) == tiles;
    has.dot = has_vectors && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & avx512_bf16);
    has.fast_dot = has.dot && is_made_by_amd();
    has.amx = has.dot && has_tiles;
    return has;
}

/* Linux saves the registers of a process that asked for it; for all its threads, those that run already too. */
static bool kernel_permits_tiles(void)
{
    const long request_permission = 0x1023, tile_data = 18; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

static const char *no_tiles, *no_dot; /* why not; NULL: this process may use them */

static void ask_once(void)
{
    const struct abilities has = read_abilities();
    if (!has.dot)
        no_dot = "this CPU has no AVX512-BF16";
    else if (!has.fast_dot)
        no_dot = "this CPU multiplies float faster than pairs of bf16";
    if (!has.amx)
        no_tiles = "this CPU has no AMX for bf16";
    else if (!kernel_permits_tiles())
        no_tiles = "the operating system does not permit AMX";
}

static pthread_once_t asked = PTHREAD_ONCE_INIT;

static const char *why_no_tiles(void)
{
    pthread_once(&asked, ask_once);
    return no_tiles;
}

static const char *why_no_dot(void)
{
    pthread_once(&asked, ask_once);
    return no_dot;
}
#else
static const char *why_no_tiles(void) { return "built for another system than x86-64 Linux"; }
static const char *why_no_dot(void) { return why_no_tiles(); }
#endif

/* PoCL's own names of the devices that run kernels in this process. */
static bool runs_in_this_process(const clattn_device_info *device)
{
    static const char *const drivers[] = {"pthread", "cpu", "basic"};
    if (!device->is_cpu || strcmp(device->platform, "Portable Computing Language") != 0)
        return false;
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++) {
        const size_t length = strlen(drivers[i]);
        if (strncmp(device->name, drivers[i], length) == 0 &&
            (device->name[length] == '-' || device->name[length] == 0))
            return true;
    }
    return false;
}

/* What both engines need; `why_not` is what the CPU says. */
static bool supports_pairs(const clattn_device_info *device, clattn_operation operation,
                           const clattn_problem *problem, const char *(*why_not)(void), char *reason,
                           size_t size)
{
    const char *why = NULL;
    if (problem->dtype != CLATTN_BF16)
        why = "it is for bf16";
    else if (problem->queries < FEWEST_ROWS || problem->keys < FEWEST_ROWS)
        why = "it is for 16 rows and more";
    else if (!runs_in_this_process(device))
        why = "the device is no CPU of PoCL";
    else
        why = why_not();
    if (why) {
        snprintf(reason, size, "%s", why);
        return false;
    }
    return clattn_engine_supports_portably(device, operation, problem, reason, size);
}

static const char *no_reason(void) { return NULL; }

static bool supports_amx(const clattn_device_info *device, clattn_operation operation,
                         const clattn_problem *problem, char *reason, size_t size)
{
    return supports_pairs(device, operation, problem, is_emulated() ? no_reason : why_no_tiles, reason, size);
}

static bool supports_dot(const clattn_device_info *device, clattn_operation operation,
                         const clattn_problem *problem, char *reason, size_t size)
{
    return supports_pairs(device, operation, problem, why_no_dot, reason, size);
}

/* Rows of a step: fewer where there are few, or where what a step reads and holds should stay in the nearest caches. */
static int inner_rows(const struct clattn_tile_query *query)
{
    const clattn_problem *p = query->problem;
    const int64_t rows = p->queries > p->keys ? p->queries : p->keys;
    if (rows <= 32)
        return 32;
    const bool much = query->held_outputs > 1 || p->head_dim > 64 || p->head_dim_v > 64;
    return rows <= 64 || much ? 64 : 128;
}

/* Two vectors or four: a step of sums over outer rows takes 32 of them. */
static bool choose_tile(const struct clattn_tile_query *query, struct clattn_tile *tile)
{
    const clattn_problem *p = query->problem;
    *tile = (struct clattn_tile){
        .inner = inner_rows(query),
        .items_x = 1,
        .items_y = 1,
        .lanes = LANES,
        .head_dim_class = clattn_head_dim_class(p->head_dim),
        .head_dim_v_class = clattn_head_dim_class(p->head_dim_v),
    };
    for (int vectors = p->queries <= 2 * LANES ? 2 : 4; vectors >= 2; vectors -= 2) {
        tile->outer = LANES * vectors;
        if (clattn_cpu_tile_fits(tile, query))
            return true;
    }
    return false;
}

static void define_amx(struct clattn_program_spec *spec, const struct clattn_tile *tile)
{
    clattn_cpu_define(spec, tile);
    clattn_spec_define(spec, "EMULATES_TILES", is_emulated());
}

const struct clattn_engine clattn_engine_cpu_amx = {
    .name = "cpu_amx",
    .adds_to_inner_rows = true,
    .may_not_build = true,
    .lanes = {"common/vector_lanes.cl"},
    .sources = {"engines/cpu.cl", "engines/bf16_blocks.cl", "engines/amx_tiles.cl", "engines/cpu_bf16.cl",
                "engines/products.cl", "engines/one_by_one.cl"},
    .supports = supports_amx,
    .choose_tile = choose_tile,
    .define = define_amx,
};

const struct clattn_engine clattn_engine_cpu_dot = {
    .name = "cpu_dot",
    .adds_to_inner_rows = true,
    .may_not_build = true,
    .lanes = {"common/vector_lanes.cl"},
    .sources = {"engines/cpu.cl", "engines/bf16_blocks.cl", "engines/dot_pairs.cl", "engines/cpu_bf16.cl",
                "engines/products.cl", "engines/one_by_one.cl"},
    .supports = supports_dot,
    .choose_tile = choose_tile,
    .define = clattn_cpu_define,
};
