/* OpenCL devices: facts, and finding one. */
#ifndef CLATTN_DEVICE_H
#define CLATTN_DEVICE_H

#include "clattn/clattn.h"

/* Reads a device's facts. */
clattn_status clattn_device_read(cl_device_id device, clattn_device_info *info);

/* The device that a selector names; see clattn_context_open. */
clattn_status clattn_device_find(const char *selector, clattn_device_info *info);

#endif
