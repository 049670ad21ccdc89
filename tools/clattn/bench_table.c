/*
 * The benchmark's tables: rows, what masks cost, and statistics, a set for
 * each operation, type and shape.
 */
#include "bench_table.h"

#include "cli.h"
#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool is_skipped(const bench_row *row) { return row->skipped[0] != '\0'; }

/* ---- lines ---- */

enum {
    CELL_SIZE = 48,
    CELL_COUNT = 9
};

typedef struct line {
    char cells[CELL_COUNT][CELL_SIZE];
    int count;
} line;

static void add_text(line *to, const char *text) { snprintf(to->cells[to->count++], CELL_SIZE, "%s", text); }

static void add_count(line *to, int64_t value)
{
    snprintf(to->cells[to->count++], CELL_SIZE, "%" PRId64, value);
}

/* Empty for what was not measured. */
static void add_number(line *to, double value, int decimals)
{
    char *cell = to->cells[to->count++];
    cell[0] = '\0';
    if (isfinite(value))
        snprintf(cell, CELL_SIZE, "%.*f", decimals, value);
}

static void print_line(const line *given, const int *widths, bench_format format)
{
    for (int i = 0; i < given->count; i++) {
        if (format == BENCH_MARKDOWN)
            printf("| %s ", given->cells[i]);
        else
            printf("%-*s", i + 1 < given->count ? widths[i] : 0, given->cells[i]);
    }
    puts(format == BENCH_MARKDOWN ? "|" : "");
}

static void print_head(const char *const *names, const int *widths, int count, bench_format format)
{
    line head = {.count = 0};
    int width = 0;
    for (int i = 0; i < count; i++) {
        add_text(&head, names[i]);
        width += widths[i];
    }
    print_line(&head, widths, format);
    for (int i = 0; i < (format == BENCH_MARKDOWN ? count : width); i++)
        fputs(format == BENCH_MARKDOWN ? "|---" : "-", stdout);
    puts(format == BENCH_MARKDOWN ? "|" : "");
}

static void print_title(const char *title, bench_format format)
{
    const char *mark = format == BENCH_MARKDOWN ? "**" : "";
    printf("\n%s%s%s\n%s", mark, title, mark, format == BENCH_MARKDOWN ? "\n" : "");
}

/* ---- the rows ---- */

static const char *const ROW_NAMES[] = {"Seq Len",  "Causal",  "Mask",      "Method",    "Time (ms)",
                                        "Mem (MB)", "TFLOP/s", "Max Error", "Grad Check"};
static const int ROW_WIDTHS[] = {9, 8, 10, 14, 12, 11, 9, 11, 10};

static void print_row(const bench_row *row, bench_format format)
{
    line cells = {.count = 0};
    add_count(&cells, row->spec.seq_len);
    add_text(&cells, row->spec.causal ? "yes" : "no");
    add_text(&cells, bench_mask_name(row->spec.mask));
    add_text(&cells, row->method);
    if (is_skipped(row)) {
        char text[CELL_SIZE];
        snprintf(text, sizeof text, "%.*s", CELL_SIZE - 1, row->skipped);
        add_text(&cells, text);
        while (format == BENCH_MARKDOWN && cells.count < CELL_COUNT)
            add_text(&cells, "");
    } else {
        add_number(&cells, row->time_ms, 3);
        add_number(&cells, row->mem_mb, 2);
        add_number(&cells, row->tflops, 3);
        snprintf(cells.cells[cells.count++], CELL_SIZE, "%.2e", row->max_error);
        add_text(&cells, row->grad_check ? "pass" : "FAIL");
    }
    print_line(&cells, ROW_WIDTHS, format);
}

static void print_rows(const bench_report *report, const bench_row *first, bench_format format)
{
    print_head(ROW_NAMES, ROW_WIDTHS, CELL_COUNT, format);
    for (int i = 0; i < report->count; i++)
        if (bench_same_group(&report->rows[i].spec, &first->spec))
            print_row(&report->rows[i], format);
}

/* ---- what masks cost ---- */

static const char *const MASK_NAMES[] = {"Seq Len", "Causal",       "Method",
                                         "No Mask", "Boolean Mask", "Additive Mask"};
static const int MASK_WIDTHS[] = {9, 8, 14, 12, 21, 20};

static void add_masked_time(line *to, const bench_report *report, const bench_row *plain, bench_mask mask)
{
    bench_spec spec = plain->spec;
    spec.mask = mask;
    const bench_row *row = bench_report_find(report, &spec, plain->method);
    char *cell = to->cells[to->count++];
    cell[0] = '\0';
    if (row && isfinite(row->time_ms))
        snprintf(cell, CELL_SIZE, "%.3f ms (%.2fx)", row->time_ms, row->time_ms / plain->time_ms);
}

static bool has_masks(const bench_report *report, const bench_row *first)
{
    for (int i = 0; i < report->count; i++)
        if (bench_same_group(&report->rows[i].spec, &first->spec) &&
            report->rows[i].spec.mask != BENCH_MASK_NONE)
            return true;
    return false;
}

static void print_masks(const bench_report *report, const bench_row *first, bench_format format)
{
    print_title("What masks cost", format);
    print_head(MASK_NAMES, MASK_WIDTHS, sizeof MASK_WIDTHS / sizeof MASK_WIDTHS[0], format);
    for (int i = 0; i < report->count; i++) {
        const bench_row *row = &report->rows[i];
        if (!bench_same_group(&row->spec, &first->spec) || row->spec.mask != BENCH_MASK_NONE ||
            !isfinite(row->time_ms))
            continue;
        line cells = {.count = 0};
        add_count(&cells, row->spec.seq_len);
        add_text(&cells, row->spec.causal ? "yes" : "no");
        add_text(&cells, row->method);
        snprintf(cells.cells[cells.count++], CELL_SIZE, "%.3f ms", row->time_ms);
        add_masked_time(&cells, report, row, BENCH_MASK_BOOLEAN);
        add_masked_time(&cells, report, row, BENCH_MASK_ADDITIVE);
        print_line(&cells, MASK_WIDTHS, format);
    }
}

/* ---- statistics ---- */

typedef struct statistics {
    int pairs; /* rows with a row of math beside them */
    double sum, least, most;
    int judged, passed; /* rows of clattn */
} statistics;

static statistics count_rows(const bench_report *report, const bench_row *first)
{
    statistics found = {.least = INFINITY};
    for (int i = 0; i < report->count; i++) {
        const bench_row *row = &report->rows[i];
        if (!bench_same_group(&row->spec, &first->spec) || strcmp(row->method, "clattn") != 0)
            continue;
        found.judged++;
        found.passed += row->grad_check;
        const bench_row *math = bench_report_find(report, &row->spec, "math");
        if (!math || !isfinite(math->time_ms) || !isfinite(row->time_ms))
            continue;
        const double speedup = math->time_ms / row->time_ms;
        found.pairs++;
        found.sum += speedup;
        found.least = fmin(found.least, speedup);
        found.most = fmax(found.most, speedup);
    }
    return found;
}

static void print_failures(const bench_report *report, const bench_row *first)
{
    for (int i = 0; i < report->count; i++) {
        const bench_row *row = &report->rows[i];
        if (bench_same_group(&row->spec, &first->spec) && strcmp(row->method, "clattn") == 0 &&
            !row->grad_check)
            printf("- failed: Seq Len %" PRId64 ", %s, mask %s\n", row->spec.seq_len,
                   row->spec.causal ? "causal" : "not causal", bench_mask_name(row->spec.mask));
    }
}

static void print_statistics(const bench_report *report, const bench_row *first, bench_format format)
{
    const statistics found = count_rows(report, first);
    if (found.judged == 0)
        return;
    print_title("Statistics", format);
    if (found.pairs > 0)
        printf("- clattn over math: %.2f times as fast on average, %.2f at least, %.2f at most\n",
               found.sum / found.pairs, found.least, found.most);
    printf("- accuracy of clattn: %d/%d rows pass\n", found.passed, found.judged);
    print_failures(report, first);
}

/* ---- all of it ---- */

static void print_group(const bench_report *report, const bench_row *first, bench_format format)
{
    const bench_spec *spec = &first->spec;
    char title[128];
    char tangents[32] = "";
    if (spec->tangents > 1)
        snprintf(tangents, sizeof tangents, ", T %" PRId64, spec->tangents);
    snprintf(title, sizeof title, "%s %s, B %" PRId64 ", H %" PRId64 ", D %" PRId64 "%s%s",
             clattn_operation_name(spec->operation), clattn_dtype_name(spec->dtype), spec->batch, spec->heads,
             spec->head_dim, tangents, spec->shares_mask ? ", masks [1,1,N,N]" : "");
    print_title(title, format);
    print_rows(report, first, format);
    if (has_masks(report, first))
        print_masks(report, first, format);
    print_statistics(report, first, format);
}

static void print_csv(const bench_report *report)
{
    puts("op,tangents,dtype,batch,heads,head_dim,seq_len,causal,mask,mask_shape,method,time_ms,time_spread_"
         "ms,wall_ms,"
         "mem_mb,"
         "process_mb,tflops,max_error,grad_check");
    for (int i = 0; i < report->count; i++) {
        const bench_row *row = &report->rows[i];
        const bench_spec *spec = &row->spec;
        const double numbers[] = {row->time_ms,    row->time_spread_ms, row->wall_ms,  row->mem_mb,
                                  row->process_mb, row->tflops,         row->max_error};
        printf("%s,%" PRId64 ",%s,%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%s,%s,%s,%s",
               clattn_operation_name(spec->operation), spec->tangents, clattn_dtype_name(spec->dtype),
               spec->batch, spec->heads, spec->head_dim, spec->seq_len, spec->causal ? "true" : "false",
               bench_mask_name(spec->mask), spec->shares_mask ? "shared" : "full", row->method);
        for (size_t n = 0; n < sizeof numbers / sizeof numbers[0]; n++) {
            putchar(',');
            if (isfinite(numbers[n]))
                printf("%.6g", numbers[n]);
        }
        printf(",%s\n", row->grad_check ? "true" : "false");
    }
}

int bench_table_print(const bench_report *report, bench_format format)
{
    if (format == BENCH_JSON)
        return json_print(bench_report_json(report));
    if (format == BENCH_CSV) {
        print_csv(report);
        return CLI_OK;
    }
    printf("%s, driver %s, %s, %s\n", report->device, report->driver, report->version, report->date);
    for (int i = 0; i < report->count; i++)
        if (bench_begins_group(report, i))
            print_group(report, &report->rows[i], format);
    return CLI_OK;
}
