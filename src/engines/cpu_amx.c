/*
 * Engine "cpu_amx" on the host: bf16 on the tile registers of x86-64 CPUs with
 * AMX. Kernels reach them through builtins of the compiler in PoCL, so the
 * device has to be the CPU that this process runs on.
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

/* For tests: CLATTN_AMX=emulated runs the engine on any CPU, with its tiles emulated in OpenCL C. Slow. */
static bool is_emulated(void)
{
    const char *amx = getenv("CLATTN_AMX");
    return amx && strcmp(amx, "emulated") == 0;
}

#if defined(__x86_64__) && defined(__linux__)
static bool cpu_has_instructions(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return false;
    const unsigned avx512f = 1u << 16, avx512dq = 1u << 17, avx512bw = 1u << 30, avx512vl = 1u << 31;
    const unsigned vectors = avx512f | avx512dq | avx512bw | avx512vl;
    const unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24;
    if ((b & vectors) != vectors || !(d & amx_bf16) || !(d & amx_tile))
        return false;
    const unsigned avx512_bf16 = 1u << 5;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & avx512_bf16);
}

/* Linux saves the registers of a process that asked for it; for all its threads, those that run already too. */
static bool kernel_permits_tiles(void)
{
    const long request_permission = 0x1023, tile_data = 18; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

static const char *why_not_here; /* NULL: this process may use tiles */

static void ask_once(void)
{
    if (!cpu_has_instructions())
        why_not_here = "this CPU has no AMX for bf16";
    else if (!kernel_permits_tiles())
        why_not_here = "the operating system does not permit AMX";
}

static const char *why_no_tiles(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, ask_once);
    return why_not_here;
}
#else
static const char *why_no_tiles(void) { return "built for another system than x86-64 Linux"; }
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

static bool supports(const clattn_device_info *device, const clattn_problem *problem, char *reason,
                     size_t size)
{
    const char *why = NULL;
    if (problem->dtype != CLATTN_BF16)
        why = "it is for bf16";
    else if (!runs_in_this_process(device))
        why = "the device is no CPU of PoCL";
    else if (!is_emulated())
        why = why_no_tiles();
    if (why) {
        snprintf(reason, size, "%s", why);
        return false;
    }
    return clattn_engine_supports_portably(device, problem, reason, size);
}

/* Rows of a step: fewer where there are few, or several arrays of scores that should stay in the nearest caches. */
static int inner_rows(const struct clattn_tile_query *query)
{
    const clattn_problem *p = query->problem;
    const int64_t rows = p->queries > p->keys ? p->queries : p->keys;
    if (rows <= 32)
        return 32;
    return rows <= 64 || query->held_outputs > 1 ? 64 : 128;
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

static void define(struct clattn_program_spec *spec, const struct clattn_tile *tile)
{
    clattn_cpu_define(spec, tile);
    clattn_spec_define(spec, "EMULATES_TILES", is_emulated());
}

const struct clattn_engine clattn_engine_cpu_amx = {
    .name = "cpu_amx",
    .adds_to_inner_rows = true,
    .may_not_build = true,
    .sources = {"common/vector_lanes.cl", "engines/cpu.cl", "engines/cpu_amx.cl"},
    .supports = supports,
    .choose_tile = choose_tile,
    .define = define,
};
