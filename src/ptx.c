/* PTX text: marks taken out, the target raised, registers bound at entry; and what a build log says of the result. */
#include "ptx.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool starts_with(const char *text, const char *start) { return strncmp(text, start, strlen(start)) == 0; }

/* What is inserted is shorter than this, and there is one a line at most. */
#define LONGEST_INSERTION 20

static size_t count_lines(const char *text)
{
    size_t lines = 1;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

/* One line, up to and with its newline, changed; returns how much of `text` it took. */
static size_t copy_line(const char *text, char **to)
{
    static const char mark[] = "//@", target[] = ".target sm_90";
    const char *end = strchr(text, '\n');
    const size_t length = end ? (size_t)(end - text) + 1 : strlen(text);
    for (size_t i = 0; i < length; i++) {
        if (starts_with(text + i, mark)) {
            i += sizeof mark - 2;
            continue;
        }
        *(*to)++ = text[i];
        const size_t done = i + 2 - sizeof target;
        if (i + 2 >= sizeof target && starts_with(text + done, target) && strchr(", \n", text[i + 1]))
            *(*to)++ = 'a';
    }
    if (starts_with(text, ".reqntid"))
        *to += sprintf(*to, ".minnctapersm 1\n");
    return length;
}

char *clattn_ptx_for_sm_90a(const char *text)
{
    if (!strstr(text, "\n.target sm_90"))
        return NULL;
    char *patched = malloc(strlen(text) + count_lines(text) * LONGEST_INSERTION + 1), *to = patched;
    if (!patched)
        return NULL;
    while (*text)
        text += copy_line(text, &to);
    *to = 0;
    return patched;
}

void clattn_ptx_note(const char *log, char *note, size_t size)
{
    note[0] = 0;
    /* C7510 .. C7518: wgmma serialised, for one reason or another */
    for (const char *at = strstr(log, "(C751"); at; at = strstr(at + 1, "(C751"))
        if (at[5] >= '0' && at[5] <= '8') {
            snprintf(note, size, "matrix instructions wait for each other (%.5s)", at + 1);
            return;
        }
    for (const char *at = strstr(log, "bytes spill stores"); at; at = strstr(at + 1, "bytes spill stores")) {
        const char *number = at - 1;
        while (number > log && number[-1] >= '0' && number[-1] <= '9')
            number--;
        const long bytes = strtol(number, NULL, 10);
        if (bytes > 0) {
            snprintf(note, size, "%ld bytes of registers are spilled", bytes);
            return;
        }
    }
}
