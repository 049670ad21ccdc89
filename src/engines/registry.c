/* The list of engines, and the choice among them. The only place that lists them. */
#include <stdio.h>
#include <string.h>

#include "engines/engine.h"
#include "status.h"

extern const struct clattn_engine clattn_engine_cpu;
extern const struct clattn_engine clattn_engine_cpu_amx;
extern const struct clattn_engine clattn_engine_cpu_dot;
extern const struct clattn_engine clattn_engine_nv_wgmma;
extern const struct clattn_engine clattn_engine_reference;
extern const struct clattn_engine clattn_engine_simt;

/* In order of merit. */
static const struct clattn_engine *const engines[] = {
    &clattn_engine_cpu_amx,  &clattn_engine_cpu_dot, &clattn_engine_cpu,
    &clattn_engine_nv_wgmma, &clattn_engine_simt,    &clattn_engine_reference,
};
#define ENGINE_COUNT ((int)(sizeof engines / sizeof *engines))

const struct clattn_engine *clattn_engine_at(int index)
{
    return index >= 0 && index < ENGINE_COUNT ? engines[index] : NULL;
}

int clattn_engine_count(void) { return ENGINE_COUNT; }

const char *clattn_engine_name(int index)
{
    const struct clattn_engine *engine = clattn_engine_at(index);
    return engine ? engine->name : NULL;
}

int clattn_head_dim_class(int64_t head_dim)
{
    static const int classes[] = {16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (head_dim <= classes[i])
            return classes[i];
    return 0;
}

bool clattn_engine_supports_portably(const clattn_device_info *device, clattn_operation operation,
                                     const clattn_problem *problem, char *reason, size_t size)
{
    (void)operation;
    if (problem->dtype == CLATTN_F64 && !device->has_fp64) {
        snprintf(reason, size, "the device has no cl_khr_fp64");
        return false;
    }
    if (!clattn_head_dim_class(problem->head_dim) || !clattn_head_dim_class(problem->head_dim_v)) {
        snprintf(reason, size, "head dims go up to 1024");
        return false;
    }
    return true;
}

static clattn_status choose_by_name(const clattn_device_info *device, clattn_operation operation,
                                    const clattn_problem *problem, const struct clattn_engine **engine,
                                    char *reason, size_t size)
{
    char names[256] = "";
    for (int i = 0; i < ENGINE_COUNT; i++) {
        if (strcmp(engines[i]->name, problem->engine) == 0) {
            char why[160];
            if (!engines[i]->supports(device, operation, problem, why, sizeof why))
                return clattn_fail(CLATTN_UNSUPPORTED, "engine: %s cannot: %s", problem->engine, why);
            *engine = engines[i];
            snprintf(reason, size, "asked for");
            return CLATTN_SUCCESS;
        }
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", engines[i]->name);
    }
    return clattn_fail(CLATTN_INVALID_ARGUMENT, "engine: '%s', expected one of %s", problem->engine, names);
}

clattn_status clattn_engine_choose(const clattn_device_info *device, clattn_operation operation,
                                   const clattn_problem *problem, const struct clattn_engine *after,
                                   const struct clattn_engine **engine, char *reason, size_t size)
{
    reason[0] = 0;
    if (problem->engine)
        return choose_by_name(device, operation, problem, engine, reason, size);
    int first = 0;
    while (after && engines[first++] != after)
        ;
    for (int i = first; i < ENGINE_COUNT; i++) {
        char why[160];
        if (engines[i]->only_by_name)
            continue;
        if (engines[i]->supports(device, operation, problem, why, sizeof why)) {
            *engine = engines[i];
            if (i == 0)
                snprintf(reason, size, "the first in order of merit");
            return CLATTN_SUCCESS;
        }
        const size_t used = strlen(reason);
        snprintf(reason + used, size - used, "%snot %s: %s", used ? "; " : "", engines[i]->name, why);
    }
    return clattn_fail(CLATTN_UNSUPPORTED, "no engine takes this problem on %s: %s", device->name, reason);
}
