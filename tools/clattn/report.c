/*
 * What `clattn run` says on stdout. Computes nothing.
 */
#include "report.h"

#include "cli.h"
#include "json.h"
#include "shapes.h"

#include <inttypes.h>
#include <stdio.h>

static double tflops(const report *content)
{
    return content->device->info.flops / content->timing->median_ms * 1e-9;
}

/* ---- lines for people ---- */

static void print_written(const report *content)
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        const npy_array *result = &content->results[t];
        char shape[SHAPE_TEXT_SIZE];
        if (!result->data)
            continue;
        shapes_format(result->rank, result->shape, shape);
        fputs("wrote   ", stdout);
        cli_print_foreign(stdout, content->options->out);
        printf("/%s.npy  %s\n", clattn_tensor_name((clattn_tensor)t), shape);
    }
}

static void print_comparisons(const report *content)
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        const comparison *found = &content->comparisons[t];
        if (!found->made)
            continue;
        printf("%s  relative %.1e  maximum %.1e  ", clattn_tensor_name((clattn_tensor)t), found->relative,
               found->maximum);
        if (found->ok)
            puts("ok");
        else if (found->bad_row >= 0)
            printf("FAIL, row %" PRId64 " differs in infinity or NaN\n", found->bad_row);
        else
            printf("FAIL, tolerance %.1e\n", compare_bar(content->options));
    }
}

static void print_lines(const report *content)
{
    const clattn_plan_info *info = &content->device->info;
    printf("device  %s\nengine  %s\ntiles   %s\n", content->device->device, info->engine, info->tiles);
    if (content->options->out)
        print_written(content);
    print_comparisons(content);
    if (content->options->time > 0)
        printf("time    median %.4g ms, minimum %.4g ms, %.4g TFLOP/s\n", content->timing->median_ms,
               content->timing->min_ms, tflops(content));
}

/* ---- JSON ---- */

static void add_comparisons(cJSON *object, const report *content)
{
    cJSON_AddNumberToObject(object, "tolerance", compare_bar(content->options));
    cJSON *errors = cJSON_AddObjectToObject(object, "errors");
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        const comparison *found = &content->comparisons[t];
        if (!found->made)
            continue;
        cJSON *entry = cJSON_AddObjectToObject(errors, clattn_tensor_name((clattn_tensor)t));
        /* JSON has no infinity: an error without bound is null. */
        cJSON_AddNumberToObject(entry, "relative", found->relative);
        cJSON_AddNumberToObject(entry, "maximum", found->maximum);
        cJSON_AddBoolToObject(entry, "ok", found->ok);
    }
}

static int print_json(const report *content)
{
    const clattn_plan_info *info = &content->device->info;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "op", clattn_operation_name(info->operation));
    cJSON_AddStringToObject(object, "device", content->device->device);
    cJSON_AddStringToObject(object, "engine", info->engine);
    cJSON_AddStringToObject(object, "tiles", info->tiles);
    cJSON_AddNumberToObject(object, "flops", info->flops);
    cJSON_AddNumberToObject(object, "bytes", (double)info->bytes);
    cJSON_AddNumberToObject(object, "workspace_bytes", (double)info->workspace_bytes);
    cJSON_AddNumberToObject(object, "device_bytes", (double)content->device->device_bytes);
    cJSON_AddNumberToObject(object, "tiles_visited", (double)content->tiles->visited);
    cJSON_AddNumberToObject(object, "tiles_skipped", (double)content->tiles->skipped);
    if (content->options->time > 0) {
        cJSON_AddNumberToObject(object, "median_ms", content->timing->median_ms);
        cJSON_AddNumberToObject(object, "min_ms", content->timing->min_ms);
        cJSON_AddNumberToObject(object, "tflops", tflops(content));
    }
    if (content->options->expect)
        add_comparisons(object, content);
    return json_print(object);
}

int report_print(const report *content)
{
    if (content->options->json)
        return print_json(content);
    print_lines(content);
    return CLI_OK;
}
