/*
 * The one way in which JSON leaves the command.
 */
#ifndef CLATTN_TOOL_JSON_H
#define CLATTN_TOOL_JSON_H

#include <cjson/cJSON.h>

/* Prints the object on stdout and deletes it; NULL is "out of memory".
 * Returns the exit code. */
int json_print(cJSON *object);

#endif /* CLATTN_TOOL_JSON_H */
