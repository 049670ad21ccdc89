/*
 * clattn info: platforms, devices, their limits, and the engine that is
 * chosen for each dtype. Computes nothing.
 */
#include "cli.h"
#include "json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a plan says of a small forward problem in one dtype. */
typedef struct engine_choice {
    char engine[64]; /* "": refused */
    char text[256];  /* tiles, or why it was refused */
} engine_choice;

static clattn_status describe_small_plan(clattn_context *context, clattn_dtype dtype, clattn_plan_info *info)
{
    clattn_problem problem;
    clattn_plan *plan = NULL;
    clattn_problem_init(&problem, CLATTN_FORWARD, &(clattn_sizes){1, 1, 1, 64, 64, 64, 64});
    problem.dtype = problem.out_dtype = problem.bias_dtype = dtype;
    clattn_status status = clattn_plan_create(context, CLATTN_FORWARD, &problem, &plan);
    if (status != CLATTN_SUCCESS)
        return status;
    status = clattn_plan_describe(plan, info);
    clattn_plan_release(plan);
    return status;
}

static void choose_engines(int device_index, engine_choice choices[CLATTN_DTYPE_COUNT])
{
    char selector[16];
    snprintf(selector, sizeof selector, "%d", device_index);
    clattn_context *context = NULL;
    clattn_status opened = clattn_context_open(selector, &context);
    for (int dtype = 0; dtype < CLATTN_DTYPE_COUNT; dtype++) {
        engine_choice *choice = &choices[dtype];
        clattn_plan_info info = {.engine = ""};
        clattn_status status = opened;
        if (opened == CLATTN_SUCCESS)
            status = describe_small_plan(context, (clattn_dtype)dtype, &info);
        bool chosen = status == CLATTN_SUCCESS;
        snprintf(choice->engine, sizeof choice->engine, "%s", chosen ? info.engine : "");
        snprintf(choice->text, sizeof choice->text, "%s", chosen ? info.tiles : clattn_message());
    }
    clattn_context_release(context);
}

static const char *device_type(const clattn_device_info *device)
{
    if (device->is_gpu)
        return "gpu";
    return device->is_cpu ? "cpu" : "other";
}

static bool starts_platform(const clattn_device_info *devices, int index)
{
    return index == 0 || strcmp(devices[index].platform, devices[index - 1].platform) != 0;
}

/* ---- lines for people ---- */

static void print_device(const clattn_device_info *device, int index)
{
    const double mib = 1024.0 * 1024.0;
    printf("  device %d: %s\n", index, device->name);
    printf("    type             %s\n", device_type(device));
    printf("    version          %s\n", device->version);
    printf("    driver           %s\n", device->driver);
    printf("    compute units    %d\n", device->compute_units);
    printf("    global memory    %.0f MiB\n", (double)device->global_memory / mib);
    printf("    max allocation   %.0f MiB\n", (double)device->max_allocation / mib);
    printf("    local memory     %" PRIu64 " KiB\n", device->local_memory / 1024);
    printf("    max work-group   %" PRIu64 "\n", device->max_work_group);
    printf("    f64              %s\n", device->has_fp64 ? "yes" : "no");
    engine_choice choices[CLATTN_DTYPE_COUNT];
    choose_engines(index, choices);
    for (int dtype = 0; dtype < CLATTN_DTYPE_COUNT; dtype++) {
        const engine_choice *choice = &choices[dtype];
        printf("    engine for %-5s %s%s%s\n", clattn_dtype_name((clattn_dtype)dtype),
               choice->engine[0] ? choice->engine : "none", choice->engine[0] ? ", " : ": ", choice->text);
    }
}

static void print_devices(const clattn_device_info *devices, int count)
{
    for (int i = 0; i < count; i++) {
        if (starts_platform(devices, i))
            printf("platform: %s\n", devices[i].platform);
        print_device(&devices[i], i);
    }
}

/* ---- JSON ---- */

static void add_engines(cJSON *object, int index)
{
    engine_choice choices[CLATTN_DTYPE_COUNT];
    choose_engines(index, choices);
    cJSON *engines = cJSON_AddObjectToObject(object, "engines");
    for (int dtype = 0; dtype < CLATTN_DTYPE_COUNT; dtype++) {
        const engine_choice *choice = &choices[dtype];
        cJSON *entry = cJSON_AddObjectToObject(engines, clattn_dtype_name((clattn_dtype)dtype));
        if (choice->engine[0])
            cJSON_AddStringToObject(entry, "engine", choice->engine);
        else
            cJSON_AddNullToObject(entry, "engine");
        cJSON_AddStringToObject(entry, choice->engine[0] ? "tiles" : "reason", choice->text);
    }
}

static cJSON *device_object(const clattn_device_info *device, int index)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "index", index);
    cJSON_AddStringToObject(object, "name", device->name);
    cJSON_AddStringToObject(object, "type", device_type(device));
    cJSON_AddStringToObject(object, "version", device->version);
    cJSON_AddStringToObject(object, "driver", device->driver);
    cJSON_AddNumberToObject(object, "compute_units", device->compute_units);
    cJSON_AddNumberToObject(object, "global_memory", (double)device->global_memory);
    cJSON_AddNumberToObject(object, "max_allocation", (double)device->max_allocation);
    cJSON_AddNumberToObject(object, "local_memory", (double)device->local_memory);
    cJSON_AddNumberToObject(object, "max_work_group", (double)device->max_work_group);
    cJSON_AddBoolToObject(object, "f64", device->has_fp64);
    add_engines(object, index);
    return object;
}

static int print_json(const clattn_device_info *devices, int count)
{
    cJSON *object = cJSON_CreateObject();
    cJSON *platforms = cJSON_AddArrayToObject(object, "platforms");
    cJSON *platform_devices = NULL;
    for (int i = 0; i < count; i++) {
        if (starts_platform(devices, i)) {
            cJSON *platform = cJSON_CreateObject();
            cJSON_AddStringToObject(platform, "name", devices[i].platform);
            platform_devices = cJSON_AddArrayToObject(platform, "devices");
            cJSON_AddItemToArray(platforms, platform);
        }
        cJSON_AddItemToArray(platform_devices, device_object(&devices[i], i));
    }
    return json_print(object);
}

/* ---- the subcommand ---- */

static void print_help(void)
{
    puts("usage: clattn info [--json]\n"
         "\n"
         "Lists OpenCL platforms, their devices and limits, and the engine that is chosen for\n"
         "each dtype (for a small forward problem), or why none is. The index of a device is\n"
         "what --device takes.\n"
         "\n"
         "  --json   one JSON object on stdout; sizes in bytes\n"
         "  --help   this text");
}

static int list_devices(bool json)
{
    int count = 0;
    clattn_status status = clattn_devices(NULL, 0, &count);
    if (status != CLATTN_SUCCESS)
        return cli_library_failure(status);
    if (count == 0) { /* the library says why there is none to open */
        clattn_context *none = NULL;
        return cli_library_failure(clattn_context_open(NULL, &none));
    }
    int capacity = count;
    clattn_device_info *devices = calloc((size_t)capacity, sizeof *devices);
    if (!devices)
        return cli_fail("out of memory");
    int code = CLI_OK;
    status = clattn_devices(devices, capacity, &count);
    count = count < capacity ? count : capacity;
    if (status != CLATTN_SUCCESS)
        code = cli_library_failure(status);
    else if (json)
        code = print_json(devices, count);
    else
        print_devices(devices, count);
    free(devices);
    return code;
}

int clattn_cmd_info(int argc, char **argv)
{
    if (cli_wants_help(argc, argv)) {
        print_help();
        return CLI_OK;
    }
    bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc > 1 && !json)
        return cli_usage("clattn info", "unexpected argument '%s'", argv[argc > 2 ? 2 : 1]);
    return list_devices(json);
}
