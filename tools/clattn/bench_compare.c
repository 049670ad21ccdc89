/*
 * clattn bench compare: the same rows of two files, and whether the newer one
 * is worse by more than its noise.
 */
#include "bench_subcommands.h"

#include "bench_rows.h"
#include "cli.h"
#include "numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char COMMAND[] = "clattn bench";

typedef struct compare_options {
    const char *old_path, *new_path;
    char old_method[BENCH_METHOD_SIZE], new_method[BENCH_METHOD_SIZE]; /* "": every method with itself */
    double threshold;
} compare_options;

typedef struct compare_state {
    const compare_options *options;
    bench_report old_report, new_report;
    int compared, regressions, unmatched;
} compare_state;

/* ---- options ---- */

static const char *set_methods(compare_options *options, const char *text)
{
    const size_t length = strcspn(text, ",");
    const char *second = text + length + 1;
    if (!text[length] || length == 0 || length >= BENCH_METHOD_SIZE || !*second || strchr(second, ',') ||
        strlen(second) >= BENCH_METHOD_SIZE)
        return "two methods with a comma between, as the files name them";
    snprintf(options->old_method, sizeof options->old_method, "%.*s", (int)length, text);
    snprintf(options->new_method, sizeof options->new_method, "%s", second);
    return NULL;
}

static const char *set_threshold(compare_options *options, const char *text)
{
    return parse_double(text, &options->threshold) && options->threshold >= 1 ? NULL : "a number >= 1";
}

static int parse(int argc, char **argv, compare_options *options)
{
    *options = (compare_options){.threshold = 1.1};
    if (argc < 3 || argv[1][0] == '-' || argv[2][0] == '-')
        return cli_usage(COMMAND, "compare: expected two files that clattn bench --json has written");
    options->old_path = argv[1];
    options->new_path = argv[2];
    for (int i = 3; i < argc; i += 2) {
        const bool threshold = strcmp(argv[i], "--threshold") == 0;
        if (!threshold && strcmp(argv[i], "--methods") != 0)
            return cli_usage(COMMAND, "compare: unknown option '%s'", argv[i]);
        if (i + 1 == argc)
            return cli_usage(COMMAND, "compare: %s: expected a value after it", argv[i]);
        const char *expected =
            threshold ? set_threshold(options, argv[i + 1]) : set_methods(options, argv[i + 1]);
        if (expected)
            return cli_usage(COMMAND, "compare: %s: '%s', expected %s", argv[i], argv[i + 1], expected);
    }
    return CLI_OK;
}

/* ---- rows ---- */

/* The row that one of the new file is compared with; NULL if it has none. */
static const bench_row *partner_of(const compare_state *state, const bench_row *row)
{
    const compare_options *options = state->options;
    const bool any = !options->new_method[0];
    if (!any && strcmp(row->method, options->new_method) != 0)
        return NULL;
    return bench_report_find(&state->old_report, &row->spec, any ? row->method : options->old_method);
}

/* Slower than the threshold allows even if both medians are off by their spread, to the row's advantage. */
static bool is_slower(const bench_row *old_row, const bench_row *new_row, double threshold)
{
    const double least = new_row->time_ms - new_row->time_spread_ms;
    const double most = old_row->time_ms + old_row->time_spread_ms;
    return least > threshold * most;
}

static void compare_rows(compare_state *state, const bench_row *old_row, const bench_row *new_row)
{
    const bench_spec *spec = &new_row->spec;
    const bool slower = is_slower(old_row, new_row, state->options->threshold);
    const bool wrong = old_row->grad_check && !new_row->grad_check;
    printf("%-8s%-6s%5" PRId64 "%6" PRId64 "%5" PRId64 "%9" PRId64
           "  %-7s%-10s%-16s%12.3f%12.3f%9.3f  %s%s\n",
           clattn_operation_name(spec->operation), clattn_dtype_name(spec->dtype), spec->batch, spec->heads,
           spec->head_dim, spec->seq_len, spec->causal ? "yes" : "no", bench_mask_name(spec->mask),
           new_row->method, old_row->time_ms, new_row->time_ms, new_row->time_ms / old_row->time_ms,
           slower ? "SLOWER " : "", wrong ? "WRONG" : "");
    state->compared++;
    state->regressions += slower || wrong;
}

static void print_head(void)
{
    printf("%-8s%-6s%5s%6s%5s%9s  %-7s%-10s%-16s%12s%12s%9s\n", "Op", "Type", "B", "H", "D", "Seq Len",
           "Causal", "Mask", "Method", "Old (ms)", "New (ms)", "New/Old");
}

static int compare_reports(compare_state *state)
{
    print_head();
    for (int i = 0; i < state->new_report.count; i++) {
        const bench_row *new_row = &state->new_report.rows[i], *old_row = partner_of(state, new_row);
        if (old_row && isfinite(old_row->time_ms) && isfinite(new_row->time_ms))
            compare_rows(state, old_row, new_row);
        else
            state->unmatched++;
    }
    printf("%d rows compared, %d worse, %d of the new file without a time or a partner in the old one\n",
           state->compared, state->regressions, state->unmatched);
    if (state->compared == 0)
        return cli_fail("no row of one file has a partner with a time in the other");
    return state->regressions == 0 ? CLI_OK
                                   : cli_fail("%d of %d rows are worse", state->regressions, state->compared);
}

int bench_compare(int argc, char **argv)
{
    compare_options options;
    compare_state state = {.options = &options};
    int code = parse(argc, argv, &options);
    if (code == CLI_OK)
        code = bench_report_read(options.old_path, &state.old_report);
    if (code == CLI_OK)
        code = bench_report_read(options.new_path, &state.new_report);
    if (code == CLI_OK)
        code = compare_reports(&state);
    bench_report_free(&state.old_report);
    bench_report_free(&state.new_report);
    return code;
}
