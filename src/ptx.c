/* PTX text: marks taken out, the target raised, registers bound at entry; and what a build log says of the result. */
#include "ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

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

/* ptxas numbers what it says of wgmma and setmaxnreg. */
static const struct {
    const char *code;
    bool is_sound;
    const char *meaning;
} remarks[] = {
    {"(C7507)", false, "registers cannot move between warpgroups"},
    {"(C7508)", false, "registers cannot move between warpgroups"},
    {"(C7510)", false, "functions are left to be called"},
    {"(C7520)", false, "matrix instructions depend on a branch"},
    {"(C7511)", true, "matrix instructions wait for each other"},
    {"(C7512)", true, "matrix instructions wait for each other"},
    {"(C7513)", true, "matrix instructions wait for each other"},
    {"(C7514)", true, "matrix instructions wait for each other"},
    {"(C7515)", true, "matrix instructions wait for each other"},
    {"(C7516)", true, "matrix instructions wait for each other"},
    {"(C7517)", true, "matrix instructions wait for each other"},
    {"(C7518)", true, "matrix instructions wait for each other"},
};

static long spilled_bytes(const char *log)
{
    static const char words[] = " bytes spill stores";
    long most = 0;
    for (const char *at = strstr(log, words); at; at = strstr(at + 1, words)) {
        const char *number = at;
        while (number > log && number[-1] >= '0' && number[-1] <= '9')
            number--;
        const long bytes = strtol(number, NULL, 10);
        most = bytes > most ? bytes : most;
    }
    return most;
}

bool clattn_ptx_is_sound(const char *log, char *note, size_t size)
{
    note[0] = 0;
    for (size_t i = 0; i < sizeof remarks / sizeof *remarks; i++)
        if (strstr(log, remarks[i].code)) {
            snprintf(note, size, "%s %s", remarks[i].meaning, remarks[i].code);
            return remarks[i].is_sound;
        }
    const long spilled = spilled_bytes(log);
    if (spilled > 0)
        snprintf(note, size, "%ld bytes of registers are spilled", spilled);
    return true;
}
