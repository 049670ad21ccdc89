/*
 * clattn bench: measures, and prints the tables; or shows, draws and compares
 * what was measured before.
 */
#include "bench_options.h"
#include "bench_rows.h"
#include "bench_run.h"
#include "bench_subcommands.h"
#include "bench_table.h"
#include "cli.h"

#include <string.h>

static const char COMMAND[] = "clattn bench";

static int measure(int argc, char **argv)
{
    bench_options options;
    bench_report report = {.rows = NULL};
    int code = bench_options_parse(argc, argv, &options);
    if (code == CLI_OK)
        code = bench_run(&options, &report);
    if (code == CLI_OK)
        code = bench_table_print(&report, options.format);
    bench_report_free(&report);
    return code;
}

/* clattn bench table FILE [--csv|--markdown] */
static int show(int argc, char **argv)
{
    bench_report report = {.rows = NULL};
    bench_format format = BENCH_TEXT;
    if (argc < 2 || argv[1][0] == '-')
        return cli_usage(COMMAND, "table: expected a file that clattn bench --json has written");
    if (argc == 3 && strcmp(argv[2], "--csv") == 0)
        format = BENCH_CSV;
    else if (argc == 3 && strcmp(argv[2], "--markdown") == 0)
        format = BENCH_MARKDOWN;
    else if (argc > 2)
        return cli_usage(COMMAND, "table: unexpected argument '%s'", argv[2]);
    int code = bench_report_read(argv[1], &report);
    if (code == CLI_OK)
        code = bench_table_print(&report, format);
    bench_report_free(&report);
    return code;
}

int clattn_cmd_bench(int argc, char **argv)
{
    if (cli_wants_help(argc, argv)) {
        bench_options_print_help();
        return CLI_OK;
    }
    if (argc > 1 && strcmp(argv[1], "table") == 0)
        return show(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "plot") == 0)
        return bench_plot(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "compare") == 0)
        return bench_compare(argc - 1, argv + 1);
    return measure(argc, argv);
}
