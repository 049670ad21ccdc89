/*
 * clattn bench plot: pictures of a benchmark by gnuplot, time and memory by
 * length. A picture for each operation and type.
 */
#include "bench_subcommands.h"

#include "bench_rows.h"
#include "bench_table.h"
#include "cli.h"
#include "directory.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char COMMAND[] = "clattn bench";

typedef enum quantity {
    TIME,
    MEMORY,
    QUANTITY_COUNT
} quantity;

static const char *const QUANTITY_NAMES[QUANTITY_COUNT] = {"time", "memory"};
static const char *const QUANTITY_LABELS[QUANTITY_COUNT] = {"Time (ms)", "Memory (MB)"};

/* Colours that the colour-blind tell apart (Okabe and Ito). */
static const char *const COLOURS[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                      "#E69F00", "#56B4E9", "#000000"};
enum {
    COLOUR_COUNT = sizeof COLOURS / sizeof COLOURS[0],
    CURVE_LIMIT = 16
};

/* What one picture shows. */
typedef struct picture {
    FILE *gnuplot;
    const bench_report *report;
    const bench_row *group; /* the first row of its operation, type and shape */
    const char *directory;
    const bench_row *curves[CURVE_LIMIT]; /* the first row of each: a method, causal or not, without a mask */
    int count;
} picture;

static bool in_picture(const bench_row *row, const bench_row *group)
{
    return bench_same_group(&row->spec, &group->spec) && row->spec.mask == BENCH_MASK_NONE;
}

static bool on_curve(const bench_row *row, const bench_row *first)
{
    return in_picture(row, first) && row->spec.causal == first->spec.causal &&
           strcmp(row->method, first->method) == 0;
}

static double value_of(const bench_row *row, quantity shown)
{
    return shown == TIME ? row->time_ms : row->mem_mb;
}

static void find_curves(picture *p)
{
    for (int i = 0; i < p->report->count && p->count < CURVE_LIMIT; i++) {
        const bench_row *row = &p->report->rows[i];
        bool known = !in_picture(row, p->group) || row->skipped[0];
        for (int c = 0; c < p->count; c++)
            known = known || on_curve(row, p->curves[c]);
        if (!known)
            p->curves[p->count++] = row;
    }
}

/* A method keeps its colour in every picture of a file: its place among the file's methods. */
static int colour_of(const bench_report *report, const char *method)
{
    int place = 0;
    for (int i = 0; i < report->count; i++) {
        const bench_row *row = &report->rows[i];
        if (strcmp(row->method, method) == 0)
            break;
        bool seen = false;
        for (int j = 0; j < i; j++)
            seen = seen || strcmp(report->rows[j].method, row->method) == 0;
        place += !seen;
    }
    return place % COLOUR_COUNT;
}

/* ---- gnuplot's language ---- */

/* Text between two quotes, where a quote is two. */
static void write_quoted(FILE *gnuplot, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputc('\'', gnuplot);
        fputc(iscntrl((unsigned char)*text) ? '?' : *text, gnuplot);
    }
}

static bool is_shown(const picture *p, const bench_row *row, quantity shown)
{
    return in_picture(row, p->group) && isfinite(value_of(row, shown));
}

/* Some room on both sides of the values; gnuplot's own choice has none where there is only one. */
static void write_ranges(const picture *p, quantity shown)
{
    double least = INFINITY, most = 0, shortest = INFINITY, longest = 0;
    for (int i = 0; i < p->report->count; i++) {
        const bench_row *row = &p->report->rows[i];
        if (!is_shown(p, row, shown))
            continue;
        least = fmin(least, value_of(row, shown));
        most = fmax(most, value_of(row, shown));
        shortest = fmin(shortest, (double)row->spec.seq_len);
        longest = fmax(longest, (double)row->spec.seq_len);
    }
    fprintf(p->gnuplot, "set xrange [%g:%g]\nset yrange [%g:%g]\n", shortest / 1.2, longest * 1.2,
            least / 1.5, most * 1.5);
}

static void write_data(const picture *p, quantity shown)
{
    for (int c = 0; c < p->count; c++) {
        fprintf(p->gnuplot, "$curve%d << END\n", c);
        for (int i = 0; i < p->report->count; i++) {
            const bench_row *row = &p->report->rows[i];
            if (on_curve(row, p->curves[c]) && is_shown(p, row, shown))
                fprintf(p->gnuplot, "%" PRId64 " %.9g\n", row->spec.seq_len, value_of(row, shown));
        }
        fputs("END\n", p->gnuplot);
    }
}

static void write_title(const picture *p)
{
    const bench_spec *spec = &p->group->spec;
    fprintf(p->gnuplot, "set title '%s %s, B %" PRId64 ", H %" PRId64 ", D %" PRId64 ": ",
            clattn_operation_name(spec->operation), clattn_dtype_name(spec->dtype), spec->batch, spec->heads,
            spec->head_dim);
    write_quoted(p->gnuplot, p->report->device);
    fputs("' noenhanced\n", p->gnuplot);
}

static void write_curve(const picture *p, int c)
{
    const bench_row *row = p->curves[c];
    const int colour = colour_of(p->report, row->method);
    fprintf(p->gnuplot,
            "%s $curve%d using 1:2 with linespoints lw 2.5 dt %d pt %d ps 1.2 lc rgb '%s' title '",
            c ? "," : "plot", c, row->spec.causal ? 2 : 1, 2 * colour + (row->spec.causal ? 4 : 5),
            COLOURS[colour]);
    write_quoted(p->gnuplot, row->method);
    fputs(row->spec.causal ? ", causal' noenhanced" : "' noenhanced", p->gnuplot);
}

static void write_picture(const picture *p, quantity shown, const char *name)
{
    static const char *const formats[][2] = {
        {"png", "pngcairo size 960,640 font 'Sans,14'"},
        {"svg", "svg size 960,640 dynamic background 'white' font 'Sans,16'"},
    };
    write_data(p, shown);
    write_ranges(p, shown);
    write_title(p);
    fprintf(p->gnuplot, "set ylabel '%s'\n", QUANTITY_LABELS[shown]);
    for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
        fprintf(p->gnuplot, "set terminal %s\nset output '", formats[f][1]);
        write_quoted(p->gnuplot, p->directory);
        fprintf(p->gnuplot, "/%s_%s.%s'\n", name, QUANTITY_NAMES[shown], formats[f][0]);
        for (int c = 0; c < p->count; c++)
            write_curve(p, c);
        fputs("\nunset output\n", p->gnuplot);
    }
}

/* ---- all of them ---- */

/* "jvp_f32", with the shape behind it if another group of the file has that name. */
static void name_group(const bench_report *report, const bench_row *group, char *name, size_t size)
{
    const bench_spec *spec = &group->spec;
    bool alone = true;
    for (int i = 0; i < report->count; i++) {
        const bench_spec *other = &report->rows[i].spec;
        alone = alone && (other->operation != spec->operation || other->dtype != spec->dtype ||
                          bench_same_group(other, spec));
    }
    const int length =
        snprintf(name, size, "%s_%s", clattn_operation_name(spec->operation), clattn_dtype_name(spec->dtype));
    if (!alone)
        snprintf(name + length, size - (size_t)length, "_b%" PRId64 "_h%" PRId64 "_d%" PRId64, spec->batch,
                 spec->heads, spec->head_dim);
}

static void write_group(FILE *gnuplot, const bench_report *report, const bench_row *group,
                        const char *directory)
{
    picture p = {gnuplot, report, group, directory, {NULL}, 0};
    char name[128];
    find_curves(&p);
    name_group(report, group, name, sizeof name);
    for (int shown = 0; shown < QUANTITY_COUNT && p.count > 0; shown++) {
        write_picture(&p, (quantity)shown, name);
        printf("%s/%s_%s.png\n", directory, name, QUANTITY_NAMES[shown]);
    }
}

static int write_pictures(FILE *gnuplot, const bench_report *report, const char *directory)
{
    fputs("set logscale x 2\nset logscale y 10\nset format x '%.0f'\nset xlabel 'Queries and keys'\n"
          "set key top left reverse Left spacing 1.2\nset grid lc rgb '#cccccc'\nset border 3\n"
          "set xtics nomirror\nset ytics nomirror\n",
          gnuplot);
    for (int i = 0; i < report->count; i++)
        if (bench_begins_group(report, i))
            write_group(gnuplot, report, &report->rows[i], directory);
    return pclose(gnuplot) == 0 ? CLI_OK : cli_fail("gnuplot failed, what it said is above");
}

/* The rows are worth having without pictures of them. */
static int show_without(const bench_report *report)
{
    const int code = bench_table_print(report, BENCH_TEXT);
    cli_flush();
    cli_fail("gnuplot is not installed; its package is gnuplot-nox or gnuplot");
    return code == CLI_OK ? CLI_FAILED : code;
}

static int plot(const char *path, const char *directory)
{
    bench_report report = {.rows = NULL};
    int code = bench_report_read(path, &report);
    const bool has_gnuplot = system("command -v gnuplot >/dev/null 2>&1") == 0;
    if (code == CLI_OK && !has_gnuplot)
        code = show_without(&report);
    if (code == CLI_OK)
        code = directory_make(directory);
    if (code == CLI_OK) {
        FILE *gnuplot = popen("gnuplot", "w");
        code = gnuplot ? write_pictures(gnuplot, &report, directory) : cli_fail("gnuplot cannot be started");
    }
    bench_report_free(&report);
    return code;
}

int bench_plot(int argc, char **argv)
{
    const char *directory = ".";
    if (argc < 2 || argv[1][0] == '-')
        return cli_usage(COMMAND, "plot: expected a file that clattn bench --json has written");
    for (int i = 2; i < argc; i += 2) {
        if (strcmp(argv[i], "--out") != 0)
            return cli_usage(COMMAND, "plot: unknown option '%s'", argv[i]);
        if (i + 1 == argc)
            return cli_usage(COMMAND, "plot: --out: expected DIR after it");
        directory = argv[i + 1];
    }
    return plot(argv[1], directory);
}
