/*
 * Opening what the user names. Knows nothing of what is in it.
 */
#include "files.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

FILE *files_open(const char *path, uint64_t *size, const char **reason)
{
    struct stat facts;
    FILE *file = NULL;
    /* Asked before opening: opening a pipe would wait for its writer, and a device has no end. */
    const bool there = stat(path, &facts) == 0, regular = there && S_ISREG(facts.st_mode);
    if (regular)
        file = fopen(path, "rb");
    if (!file)
        *reason = there && !regular ? "expected a regular file" : strerror(errno);
    *size = file ? (uint64_t)facts.st_size : 0;
    return file;
}
