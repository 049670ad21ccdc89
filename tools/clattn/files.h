/*
 * Files that the user names. Knows nothing of what is in them.
 */
#ifndef CLATTN_TOOL_FILES_H
#define CLATTN_TOOL_FILES_H

#include <stdint.h>
#include <stdio.h>

/* Opens a regular file to be read, and says its size. NULL with why not in *reason, which is valid until errno is
 * asked about again. */
FILE *files_open(const char *path, uint64_t *size, const char **reason);

#endif /* CLATTN_TOOL_FILES_H */
