/*
 * How every subcommand answers: exit codes, one-line errors on stderr, and
 * the subcommands themselves. Knows nothing of arrays or devices.
 */
#ifndef CLATTN_TOOL_CLI_H
#define CLATTN_TOOL_CLI_H

#include <clattn/clattn.h>

#include <stdio.h>

enum {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2
};

/* Each prints "clattn: ..." on stderr and returns the exit code to end with. */

/* Something that did not work: a file, a device, the contents of an array. */
int cli_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A command line that says something wrong; a second line points to "`command` --help". */
int cli_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The library's last message on this thread; the exit code follows from its status. */
int cli_library_failure(clattn_status status);

/* Prints text of others, such as a file's name: control characters become '?', so that it cannot break the line or
 * command the terminal. */
void cli_print_foreign(FILE *stream, const char *text);

/* An option as --help shows it: its name, its argument or NULL, and lines of help, the last of them with `note`. */
void cli_print_option(const char *name, const char *argument, const char *help, const char *note);

/* Sends what was printed on its way. An answer that does not arrive (a full disk behind stdout) is no success. */
int cli_flush(void);

/* True if the arguments of a subcommand ask for its help. */
bool cli_wants_help(int argc, char **argv);

/* Subcommands. argv[0] is the subcommand's name; they return the exit code. */
int clattn_cmd_info(int argc, char **argv);
int clattn_cmd_run(int argc, char **argv);
int clattn_cmd_check(int argc, char **argv);
int clattn_cmd_bench(int argc, char **argv);

#endif /* CLATTN_TOOL_CLI_H */
