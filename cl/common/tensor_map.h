/*
 * The 128 bytes by which NVIDIA's copy engine (Hopper's TMA) knows a tensor of
 * five axes, in the layout that CUDA's cuTensorMapEncodeTiled writes. Compiled
 * as C11 by the tests and as OpenCL C by the device.
 */
#ifndef CLATTN_TENSOR_MAP_H
#define CLATTN_TENSOR_MAP_H

#ifndef __OPENCL_VERSION__ /* there it comes before */
#include "common/params.h"
#endif

#define TENSOR_MAP_F16 6 /* element types */
#define TENSOR_MAP_BF16 10
/* Rows of 128 bytes, whose 16-byte pieces are permuted by the row's number mod 8. */
#define TENSOR_MAP_SWIZZLE_128 3
#define TENSOR_MAP_L2_256 3 /* bytes that a miss brings into the second-level cache */

#define TENSOR_MAP_WORDS 32

/* Axes from the innermost, which is contiguous; stride[n] is of axis n + 1, in bytes, a multiple of 16. */
struct tensor_map {
    PARAMS_ULONG address; /* a multiple of 16 */
    PARAMS_UINT size[5];
    PARAMS_ULONG stride[4];
    PARAMS_UINT box[5]; /* elements that one load takes, 1 .. 256 */
    int type;
};

/* Word n of the map. */
static inline PARAMS_UINT tensor_map_word(const struct tensor_map *map, int n)
{
    if (n < 2)
        return (PARAMS_UINT)(map->address >> (32 * n));
    if (n == 2)
        return 4u << 4 | (PARAMS_UINT)map->type << 7 | TENSOR_MAP_SWIZZLE_128 << 13 | TENSOR_MAP_L2_256 << 17;
    if (n < 7)
        return (PARAMS_UINT)(map->stride[n - 3] >> 4);
    if (n == 7) {
        PARAMS_UINT high = 0;
        for (int axis = 0; axis < 4; axis++)
            high |= (PARAMS_UINT)(map->stride[axis] >> 36 & 15) << (4 * axis);
        return high;
    }
    if (n < 13)
        return map->size[n - 8] - 1;
    if (n == 13)
        return (map->box[0] - 1) << 24;
    if (n == 14)
        return (map->box[1] - 1) | (map->box[2] - 1) << 8 | (map->box[3] - 1) << 16 | (map->box[4] - 1) << 24;
    return 0;
}

#endif
