/* Programs whose binary is NVIDIA's PTX text, changed on its way to the device. Knows no engine. */
#ifndef CLATTN_PTX_H
#define CLATTN_PTX_H

#include <stddef.h>

/*
 * The text for sm_90a that a program for sm_90 stands for, or NULL if it is no
 * such program (or memory is short). What is behind the mark "//@" counts, and
 * kernels with a fixed work-group get a bound on registers at entry, without
 * which ptxas ignores setmaxnreg. The caller frees it.
 */
char *clattn_ptx_for_sm_90a(const char *text);

/* Writes to `note`, of `size` bytes, what in a build log says that matrix instructions wait for each other or that
 * registers are spilled; an empty string if nothing does. */
void clattn_ptx_note(const char *log, char *note, size_t size);

#endif
