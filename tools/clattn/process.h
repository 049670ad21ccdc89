/*
 * The memory of this process. Knows nothing of what is in it.
 */
#ifndef CLATTN_TOOL_PROCESS_H
#define CLATTN_TOOL_PROCESS_H

#include <stdint.h>

/* Lets the peak count from now on, where the system can: Linux. */
void process_forget_peak(void);

/* The largest resident set, in bytes. */
uint64_t process_peak(void);

#endif /* CLATTN_TOOL_PROCESS_H */
