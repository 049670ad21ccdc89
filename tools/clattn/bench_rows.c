/*
 * Rows of the benchmark, and their JSON. One table of fields is both how they
 * are written and how they are read.
 */
#include "bench_rows.h"

#include "cli.h"
#include "files.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

bool bench_same_group(const bench_spec *left, const bench_spec *right)
{
    return left->operation == right->operation && left->dtype == right->dtype &&
           left->batch == right->batch && left->heads == right->heads && left->head_dim == right->head_dim &&
           left->tangents == right->tangents && left->shares_mask == right->shares_mask;
}

bool bench_same_spec(const bench_spec *left, const bench_spec *right)
{
    return bench_same_group(left, right) && left->seq_len == right->seq_len && left->mask == right->mask &&
           left->causal == right->causal;
}

bool bench_begins_group(const bench_report *report, int index)
{
    for (int i = 0; i < index; i++)
        if (bench_same_group(&report->rows[i].spec, &report->rows[index].spec))
            return false;
    return true;
}

bench_row bench_row_of(const bench_spec *spec, const char *method)
{
    bench_row row = {.spec = *spec,
                     .time_ms = NAN,
                     .time_spread_ms = NAN,
                     .wall_ms = NAN,
                     .warm_up_ms = NAN,
                     .mem_mb = NAN,
                     .process_mb = NAN,
                     .tflops = NAN,
                     .max_error = NAN};
    snprintf(row.method, sizeof row.method, "%s", method);
    return row;
}

bool bench_report_add(bench_report *report, const bench_row *row)
{
    if (report->count == report->capacity) {
        const int capacity = report->capacity ? 2 * report->capacity : 64;
        bench_row *rows = realloc(report->rows, (size_t)capacity * sizeof *rows);
        if (!rows)
            return false;
        report->rows = rows;
        report->capacity = capacity;
    }
    report->rows[report->count++] = *row;
    return true;
}

void bench_report_free(bench_report *report)
{
    free(report->rows);
    *report = (bench_report){.rows = NULL};
}

const bench_row *bench_report_find(const bench_report *report, const bench_spec *spec, const char *method)
{
    for (int i = 0; i < report->count; i++) {
        const bench_row *row = &report->rows[i];
        if (strcmp(row->method, method) == 0 && bench_same_spec(&row->spec, spec))
            return row;
    }
    return NULL;
}

/* ---- the fields ---- */

typedef struct field {
    const char *name;
    size_t offset; /* in bench_row or bench_report */
    size_t size;   /* of a text */
} field;

static const field SIZES[] = {
    {"seq_len", offsetof(bench_row, spec.seq_len), 0},
    {"batch", offsetof(bench_row, spec.batch), 0},
    {"heads", offsetof(bench_row, spec.heads), 0},
    {"head_dim", offsetof(bench_row, spec.head_dim), 0},
};

static const field MEASURES[] = {
    {"time_ms", offsetof(bench_row, time_ms), 0}, {"time_spread_ms", offsetof(bench_row, time_spread_ms), 0},
    {"wall_ms", offsetof(bench_row, wall_ms), 0}, {"warm_up_ms", offsetof(bench_row, warm_up_ms), 0},
    {"mem_mb", offsetof(bench_row, mem_mb), 0},   {"process_mb", offsetof(bench_row, process_mb), 0},
    {"tflops", offsetof(bench_row, tflops), 0},   {"max_error", offsetof(bench_row, max_error), 0},
};

/* null where there is nothing to say */
static const field TEXTS[] = {
    {"method", offsetof(bench_row, method), BENCH_METHOD_SIZE},
    {"engine", offsetof(bench_row, engine), BENCH_TEXT_SIZE},
    {"skipped", offsetof(bench_row, skipped), BENCH_TEXT_SIZE},
};

static const field REPORT_TEXTS[] = {
    {"device", offsetof(bench_report, device), BENCH_TEXT_SIZE},
    {"driver", offsetof(bench_report, driver), BENCH_TEXT_SIZE},
    {"version", offsetof(bench_report, version), BENCH_TEXT_SIZE},
    {"date", offsetof(bench_report, date), sizeof((bench_report *)0)->date},
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* What a field of a row or report is, to be written and to be read. */
#define TEXT_OF(whole, f) ((char *)(whole) + (f)->offset)
#define MEASURE_OF(row, f) ((double *)(void *)((char *)(row) + (f)->offset))
#define SIZE_OF(row, f) ((int64_t *)(void *)((char *)(row) + (f)->offset))

/* ---- writing ---- */

static void write_row(const bench_row *given, cJSON *object)
{
    bench_row row = *given;
    for (size_t i = 0; i < COUNT(SIZES); i++)
        cJSON_AddNumberToObject(object, SIZES[i].name, (double)*SIZE_OF(&row, &SIZES[i]));
    cJSON_AddNumberToObject(object, "tangents", (double)row.spec.tangents);
    cJSON_AddBoolToObject(object, "causal", row.spec.causal);
    cJSON_AddStringToObject(object, "mask", bench_mask_name(row.spec.mask));
    cJSON_AddStringToObject(object, "mask_shape", row.spec.shares_mask ? "shared" : "full");
    cJSON_AddStringToObject(object, "dtype", clattn_dtype_name(row.spec.dtype));
    cJSON_AddStringToObject(object, "op", clattn_operation_name(row.spec.operation));
    for (size_t i = 0; i < COUNT(MEASURES); i++) {
        const double value = *MEASURE_OF(&row, &MEASURES[i]);
        cJSON_AddItemToObject(object, MEASURES[i].name,
                              isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull());
    }
    cJSON_AddNumberToObject(object, "repeats", row.repeats);
    cJSON_AddBoolToObject(object, "grad_check", row.grad_check);
    for (size_t i = 0; i < COUNT(TEXTS); i++) {
        const char *text = TEXT_OF(&row, &TEXTS[i]);
        cJSON_AddItemToObject(object, TEXTS[i].name, text[0] ? cJSON_CreateString(text) : cJSON_CreateNull());
    }
}

cJSON *bench_report_json(const bench_report *given)
{
    bench_report report = *given;
    cJSON *object = cJSON_CreateObject();
    for (size_t i = 0; i < COUNT(REPORT_TEXTS); i++)
        cJSON_AddStringToObject(object, REPORT_TEXTS[i].name, TEXT_OF(&report, &REPORT_TEXTS[i]));
    cJSON *rows = cJSON_AddArrayToObject(object, "rows");
    for (int i = 0; rows && i < report.count; i++) {
        cJSON *row = cJSON_CreateObject();
        write_row(&report.rows[i], row);
        cJSON_AddItemToArray(rows, row);
    }
    return object;
}

/* ---- reading ---- */

/* The place in a list of names that an enumeration's texts have; -1 if it is not there. */
static int find_name(const cJSON *item, const char *(*name)(int index), int count)
{
    for (int i = 0; i < count && cJSON_IsString(item); i++)
        if (strcmp(item->valuestring, name(i)) == 0)
            return i;
    return -1;
}

static const char *mask_name(int i) { return bench_mask_name((bench_mask)i); }
static const char *dtype_name(int i) { return clattn_dtype_name((clattn_dtype)i); }
static const char *operation_name(int i) { return clattn_operation_name((clattn_operation)i); }

/* NULL if all was well, else the name of the field that was not. */
static const char *read_texts(const cJSON *object, const field *fields, size_t count, void *whole)
{
    for (size_t i = 0; i < count; i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, fields[i].name);
        if (!cJSON_IsString(item) && !cJSON_IsNull(item))
            return fields[i].name;
        snprintf(TEXT_OF(whole, &fields[i]), fields[i].size, "%s",
                 cJSON_IsString(item) ? item->valuestring : "");
    }
    return NULL;
}

static const char *read_sizes(const cJSON *object, bench_row *row)
{
    for (size_t i = 0; i < COUNT(SIZES); i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, SIZES[i].name);
        if (!cJSON_IsNumber(item) || !(item->valuedouble >= 1 && item->valuedouble < 0x1p31))
            return SIZES[i].name;
        *SIZE_OF(row, &SIZES[i]) = (int64_t)item->valuedouble;
    }
    return NULL;
}

static const char *read_measures(const cJSON *object, bench_row *row)
{
    for (size_t i = 0; i < COUNT(MEASURES); i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, MEASURES[i].name);
        if (!cJSON_IsNumber(item) && !cJSON_IsNull(item))
            return MEASURES[i].name;
        *MEASURE_OF(row, &MEASURES[i]) = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    }
    return NULL;
}

static const char *read_kinds(const cJSON *object, bench_row *row)
{
    const cJSON *causal = cJSON_GetObjectItemCaseSensitive(object, "causal");
    const cJSON *passes = cJSON_GetObjectItemCaseSensitive(object, "grad_check");
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(object, "mask_shape");  /* missing: full */
    const cJSON *tangents = cJSON_GetObjectItemCaseSensitive(object, "tangents"); /* missing: 1 */
    const cJSON *repeats = cJSON_GetObjectItemCaseSensitive(object, "repeats");
    const int mask = find_name(cJSON_GetObjectItemCaseSensitive(object, "mask"), mask_name, BENCH_MASK_COUNT);
    const int dtype =
        find_name(cJSON_GetObjectItemCaseSensitive(object, "dtype"), dtype_name, CLATTN_DTYPE_COUNT);
    const int operation =
        find_name(cJSON_GetObjectItemCaseSensitive(object, "op"), operation_name, CLATTN_OPERATION_COUNT);
    if (!cJSON_IsBool(causal) || !cJSON_IsBool(passes))
        return cJSON_IsBool(causal) ? "grad_check" : "causal";
    if (!cJSON_IsNumber(repeats) || mask < 0)
        return mask < 0 ? "mask" : "repeats";
    if (dtype < 0 || operation < 0)
        return dtype < 0 ? "dtype" : "op";
    row->spec.causal = cJSON_IsTrue(causal);
    row->spec.tangents = cJSON_IsNumber(tangents) ? tangents->valueint : 1;
    row->spec.shares_mask = cJSON_IsString(shape) && strcmp(shape->valuestring, "shared") == 0;
    row->grad_check = cJSON_IsTrue(passes);
    row->repeats = repeats->valueint;
    row->spec.mask = (bench_mask)mask;
    row->spec.dtype = (clattn_dtype)dtype;
    row->spec.operation = (clattn_operation)operation;
    return NULL;
}

static const char *read_row(const cJSON *object, bench_row *row)
{
    *row = (bench_row){.repeats = 0};
    const char *bad = read_sizes(object, row);
    if (!bad)
        bad = read_measures(object, row);
    if (!bad)
        bad = read_kinds(object, row);
    return bad ? bad : read_texts(object, TEXTS, COUNT(TEXTS), row);
}

static int read_rows(const char *path, const cJSON *object, bench_report *report)
{
    const char *bad = read_texts(object, REPORT_TEXTS, COUNT(REPORT_TEXTS), report);
    if (bad)
        return cli_fail("%s: %s: expected a text", path, bad);
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(object, "rows"), *item;
    if (!cJSON_IsArray(rows) || cJSON_GetArraySize(rows) == 0)
        return cli_fail("%s: rows: expected an array with at least one row", path);
    cJSON_ArrayForEach(item, rows)
    {
        bench_row row;
        bad = read_row(item, &row);
        if (bad)
            return cli_fail("%s: row %d: %s is missing or not what clattn bench --json writes", path,
                            report->count, bad);
        if (!bench_report_add(report, &row))
            return cli_fail("out of memory");
    }
    return CLI_OK;
}

/* A report is a few hundred kilobytes; what is far beyond is something else. */
enum {
    REPORT_LIMIT = 64 << 20
};

/* The whole file, to be freed; NULL after printing what is wrong. */
static char *read_text(const char *path)
{
    uint64_t size;
    const char *reason;
    FILE *file = files_open(path, &size, &reason);
    if (!file) {
        cli_fail("%s: %s", path, reason);
        return NULL;
    }
    char *text = size <= REPORT_LIMIT ? malloc((size_t)size + 1) : NULL;
    const bool whole = text && fread(text, 1, (size_t)size, file) == size;
    fclose(file);
    if (whole) {
        text[size] = '\0';
        return text;
    }
    free(text);
    cli_fail("%s: cannot be read, or more than %d MB", path, REPORT_LIMIT >> 20);
    return NULL;
}

int bench_report_read(const char *path, bench_report *report)
{
    char *text = read_text(path);
    if (!text)
        return CLI_FAILED;
    cJSON *object = cJSON_Parse(text);
    free(text);
    const int code =
        cJSON_IsObject(object)
            ? read_rows(path, object, report)
            : cli_fail("%s: no JSON object, expected what clattn bench --json has written", path);
    cJSON_Delete(object);
    return code;
}
