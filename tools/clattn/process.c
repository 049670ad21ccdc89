/*
 * The memory of this process, from Linux's /proc or else from getrusage.
 */
#include "process.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>

void process_forget_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file)
        return;
    fputs("5", file); /* proc(5): resets the peak of the resident set */
    fclose(file);
}

static bool read_status(uint64_t *bytes)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file))
        found = sscanf(line, "VmHWM: %" SCNu64 " kB", bytes) == 1;
    if (file)
        fclose(file);
    *bytes *= 1024;
    return found;
}

uint64_t process_peak(void)
{
    uint64_t bytes = 0;
    struct rusage usage;
    if (read_status(&bytes))
        return bytes;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}
