/*
 * Directories that the user names. Knows nothing of what goes into them.
 */
#ifndef CLATTN_TOOL_DIRECTORY_H
#define CLATTN_TOOL_DIRECTORY_H

/* Makes the directory of --out, and those above it, if missing. Prints what is wrong and returns the exit code. */
int directory_make(const char *directory);

#endif /* CLATTN_TOOL_DIRECTORY_H */
