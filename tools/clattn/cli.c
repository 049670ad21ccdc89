/*
 * Errors and exit codes of the command. Knows nothing of arrays or devices.
 */
#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

void cli_print_foreign(FILE *stream, const char *text)
{
    for (; *text; text++)
        fputc(iscntrl((unsigned char)*text) ? '?' : *text, stream);
}

static void print_error(const char *format, va_list arguments)
{
    char text[8192];
    vsnprintf(text, sizeof text, format, arguments);
    fputs("clattn: ", stderr);
    cli_print_foreign(stderr, text);
    fputc('\n', stderr);
}

int cli_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_error(format, arguments);
    va_end(arguments);
    return CLI_FAILED;
}

int cli_usage(const char *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_error(format, arguments);
    va_end(arguments);
    fprintf(stderr, "see: %s --help\n", command);
    return CLI_USAGE;
}

int cli_library_failure(clattn_status status)
{
    const char *message = clattn_message();
    /* the library's word for it is the option's, without the dashes */
    const bool logit = status == CLATTN_BUILD_ERROR && strncmp(message, "logit: ", 7) == 0;
    fprintf(stderr, "clattn: %s%s\n", logit ? "--" : "", message[0] ? message : clattn_status_name(status));
    bool not_built_yet = status == CLATTN_UNSUPPORTED && strstr(message, "not built yet");
    return status == CLATTN_INVALID_ARGUMENT || not_built_yet ? CLI_USAGE : CLI_FAILED;
}

void cli_print_option(const char *name, const char *argument, const char *help, const char *note)
{
    enum {
        COLUMN = 24
    };
    printf("  %s %-*s", name, COLUMN - 3 - (int)strlen(name), argument ? argument : "");
    for (const char *line = help; line;) {
        const int length = (int)strcspn(line, "\n");
        const bool last = line[length] == '\0';
        printf("%.*s%s\n", length, line, last ? note : "");
        line = last ? NULL : line + length + 1;
        if (line)
            printf("%*s", COLUMN, "");
    }
}

int cli_flush(void)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        return cli_fail("standard output: %s", strerror(errno));
    return CLI_OK;
}

bool cli_wants_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    }
    return false;
}
