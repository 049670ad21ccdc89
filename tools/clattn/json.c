/*
 * The one way in which JSON leaves the command.
 */
#include "json.h"

#include "cli.h"

#include <stdio.h>

int json_print(cJSON *object)
{
    char *text = object ? cJSON_Print(object) : NULL;
    cJSON_Delete(object);
    if (!text)
        return cli_fail("out of memory");
    puts(text);
    cJSON_free(text);
    return CLI_OK;
}
