/*
 * The clattn command: finds the subcommand and hands over to it. Knows no
 * subcommand's options.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct subcommand {
    const char *name;
    const char *help;
    int (*run)(int argc, char **argv); /* NULL: not built yet */
} subcommand;

static const subcommand SUBCOMMANDS[] = {
    {"info", "platforms, devices, limits, the engine chosen for each dtype", clattn_cmd_info},
    {"run", "one operation on .npy files", clattn_cmd_run},
    {"check", "self-test of every operation and option on this device", clattn_cmd_check},
    {"bench", "the benchmark: time, memory and errors beside the quadratic method", clattn_cmd_bench},
    {"tune", "search tile sizes on this device and store them (not built yet)", NULL},
};
enum {
    SUBCOMMAND_COUNT = sizeof SUBCOMMANDS / sizeof SUBCOMMANDS[0]
};

static void print_help(void)
{
    puts("usage: clattn SUBCOMMAND [options]\n"
         "\n"
         "Exact attention and its derivatives (JVP, VJP, HVP) on any OpenCL device.\n");
    for (int i = 0; i < SUBCOMMAND_COUNT; i++)
        printf("  %-10s%s\n", SUBCOMMANDS[i].name, SUBCOMMANDS[i].help);
    puts("\n"
         "  --help    this text; after a subcommand, that subcommand's\n"
         "  --version the library's version\n"
         "\n"
         "Exit codes: 0 success, 1 failed, 2 wrong usage.");
}

static int dispatch(int argc, char **argv)
{
    for (int i = 0; i < SUBCOMMAND_COUNT; i++) {
        const subcommand *found = &SUBCOMMANDS[i];
        if (strcmp(argv[1], found->name) != 0)
            continue;
        if (!found->run && cli_wants_help(argc - 1, argv + 1)) {
            printf("usage: clattn %s\n\n%s\n", found->name, found->help);
            return CLI_OK;
        }
        if (!found->run)
            return cli_usage("clattn", "%s: not built yet", found->name);
        return found->run(argc - 1, argv + 1);
    }
    return cli_usage("clattn", "unknown subcommand '%s'", argv[1]);
}

static int run_command(int argc, char **argv)
{
    if (argc < 2)
        return cli_usage("clattn", "a subcommand is missing");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help();
        return CLI_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("clattn %s\n", clattn_version());
        return CLI_OK;
    }
    return dispatch(argc, argv);
}

/* A file that is opened later must not become one of the three standard streams. */
static bool open_standard_streams(void)
{
    bool has_output = fcntl(STDOUT_FILENO, F_GETFD) >= 0;
    int opened;
    do
        opened = open("/dev/null", O_RDWR);
    while (opened >= 0 && opened <= STDERR_FILENO);
    if (opened >= 0)
        close(opened);
    return has_output;
}

int main(int argc, char **argv)
{
    if (!open_standard_streams())
        return cli_fail("standard output: %s", strerror(EBADF));
    /* A reader that is gone is an answer that does not arrive, not the end. */
    signal(SIGPIPE, SIG_IGN);
    int code = run_command(argc, argv);
    return code == CLI_OK ? cli_flush() : code;
}
