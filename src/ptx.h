/* Programs whose binary is NVIDIA's PTX text, changed on its way to the device. Knows no engine. */
#ifndef CLATTN_PTX_H
#define CLATTN_PTX_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The text for sm_90a that a program for sm_90 stands for, or NULL if it is no
 * such program (or memory is short). What is behind the mark "//@" counts, and
 * kernels with a fixed work-group get a bound on registers at entry, without
 * which ptxas ignores setmaxnreg. The caller frees it.
 */
char *clattn_ptx_for_sm_90a(const char *text);

/*
 * What a build log says of the result. False if the program must not run: where
 * registers do not move between warpgroups as it says, or functions are left to
 * be called, it may wait for ever. `note`, of `size` bytes, gets a line on that,
 * or on what costs speed: matrix instructions that wait for each other,
 * registers that are spilled; or an empty string.
 */
bool clattn_ptx_is_sound(const char *log, char *note, size_t size);

#endif
