/*
 * Stands between the library and OpenCL, and between the library and the
 * heap: makes the n-th call fail, counts objects, invents devices. A program
 * that is linked as tests/CMakeLists.txt does it for the tests that use this
 * has every such call of the library come here first; others never do.
 */
#ifndef FAKE_CL_H
#define FAKE_CL_H

#include <stdbool.h>
#include <stddef.h>

#include "clattn/clattn.h"

/* Sets all counts to 0 and lets every call through. */
void fake_cl_reset(void);

/* The n-th OpenCL call from now on, counted from 1, returns `error` and does nothing. Releases are let
 * through: there is nothing that a caller could do about one that fails. */
void fake_cl_fail_call(int n, cl_int error);
/* The n-th allocation from now on, counted from 1, returns NULL. */
void fake_cl_fail_allocation(int n);
/* Name of the function that was made to fail; NULL if it has not come to that. */
const char *fake_cl_failed(void);

/* OpenCL objects, and blocks on the heap, made or retained since the reset and not released. */
int fake_cl_objects(void);
int fake_cl_blocks(void);

/* Buffers made since the reset: how many, bytes in all, bytes of the largest. */
struct fake_cl_buffers {
    int count;
    size_t bytes;
    size_t largest;
};
struct fake_cl_buffers fake_cl_buffers(void);

/* Devices to be found in place of the real ones, on a platform of their own; owned by the caller. Count 0
 * brings the real ones back. They can be listed and described, not used. */
struct fake_cl_device {
    const char *name;
    cl_device_type type;
    const char *extensions;
};
void fake_cl_set_devices(const struct fake_cl_device *devices, int count);

/* What real devices say the width of their vectors of floats is; 0 brings the truth back. */
void fake_cl_set_vector_width(int floats);

#endif /* FAKE_CL_H */
