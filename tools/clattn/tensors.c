/*
 * One table: axes and element type of each tensor. Knows nothing of the
 * command line.
 */
#include "tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum element {
    ELEMENT_DTYPE,  /* the problem's dtype */
    ELEMENT_OUTPUT, /* its out_dtype */
    ELEMENT_ROW,    /* f64 under f64, else f32 */
    ELEMENT_F32,
    ELEMENT_BOOL,
    ELEMENT_BYTE,
    ELEMENT_INT32
} element;

typedef struct tensor_spec {
    const char *axes;
    element element;
    /* Operations that have it, for results; 0 for inputs. */
    unsigned results_of;
} tensor_spec;

enum {
    ALL = 1 << CLATTN_FORWARD | 1 << CLATTN_JVP | 1 << CLATTN_VJP | 1 << CLATTN_HVP,
    TANGENTS = 1 << CLATTN_JVP | 1 << CLATTN_HVP,
    GRADIENTS = 1 << CLATTN_VJP | 1 << CLATTN_HVP,
    SECOND = 1 << CLATTN_HVP
};

static const tensor_spec SPECS[CLATTN_TENSOR_COUNT] = {
    [CLATTN_Q] = {"BHMD", ELEMENT_DTYPE, 0},
    [CLATTN_K] = {"BGND", ELEMENT_DTYPE, 0},
    [CLATTN_V] = {"BGNE", ELEMENT_DTYPE, 0},
    [CLATTN_BIAS] = {"bhmn", ELEMENT_ROW, 0},
    [CLATTN_MASK] = {"bhmn", ELEMENT_BOOL, 0},
    [CLATTN_KV_LENGTHS] = {"B", ELEMENT_INT32, 0},
    [CLATTN_Q_SEGMENTS] = {"BM", ELEMENT_INT32, 0},
    [CLATTN_KV_SEGMENTS] = {"BN", ELEMENT_INT32, 0},
    [CLATTN_CU_SEQLENS_Q] = {"C", ELEMENT_INT32, 0},
    [CLATTN_CU_SEQLENS_K] = {"C", ELEMENT_INT32, 0},
    [CLATTN_ALIBI] = {"H", ELEMENT_F32, 0},
    [CLATTN_BLOCK_MASK] = {"bhXY", ELEMENT_BYTE, 0},
    [CLATTN_SINK] = {"H", ELEMENT_ROW, 0},
    [CLATTN_LOGIT_DATA] = {NULL, ELEMENT_F32, 0},
    [CLATTN_TQ] = {"TBHMD", ELEMENT_DTYPE, 0},
    [CLATTN_TK] = {"TBGND", ELEMENT_DTYPE, 0},
    [CLATTN_TV] = {"TBGNE", ELEMENT_DTYPE, 0},
    [CLATTN_TBIAS] = {"T0123", ELEMENT_ROW, 0},
    [CLATTN_TSINK] = {"TH", ELEMENT_ROW, 0},
    [CLATTN_DO] = {"BHME", ELEMENT_DTYPE, 0},
    [CLATTN_DLSE] = {"BHM", ELEMENT_ROW, 0},
    [CLATTN_TDO] = {"TBHME", ELEMENT_DTYPE, 0},
    [CLATTN_TDLSE] = {"TBHM", ELEMENT_ROW, 0},
    [CLATTN_O] = {"BHME", ELEMENT_OUTPUT, ALL},
    [CLATTN_LSE] = {"BHM", ELEMENT_ROW, ALL},
    /* LSE_LOW is between two calls of a program; the command makes one call. */
    [CLATTN_LSE_LOW] = {"BHM", ELEMENT_ROW, 0},
    [CLATTN_TO] = {"TBHME", ELEMENT_OUTPUT, TANGENTS},
    [CLATTN_TLSE] = {"TBHM", ELEMENT_ROW, TANGENTS},
    [CLATTN_DQ] = {"BHMD", ELEMENT_OUTPUT, GRADIENTS},
    [CLATTN_DK] = {"BGND", ELEMENT_OUTPUT, GRADIENTS},
    [CLATTN_DV] = {"BGNE", ELEMENT_OUTPUT, GRADIENTS},
    [CLATTN_DBIAS] = {"0123", ELEMENT_ROW, GRADIENTS},
    [CLATTN_DSINK] = {"H", ELEMENT_ROW, GRADIENTS},
    [CLATTN_TDQ] = {"TBHMD", ELEMENT_OUTPUT, SECOND},
    [CLATTN_TDK] = {"TBGND", ELEMENT_OUTPUT, SECOND},
    [CLATTN_TDV] = {"TBGNE", ELEMENT_OUTPUT, SECOND},
    [CLATTN_TDBIAS] = {"T0123", ELEMENT_ROW, SECOND},
    [CLATTN_TDSINK] = {"TH", ELEMENT_ROW, SECOND},
};

const char *tensor_axes(clattn_tensor tensor) { return SPECS[tensor].axes; }

bool tensor_has_layout(clattn_tensor tensor)
{
    return SPECS[tensor].element == ELEMENT_DTYPE || SPECS[tensor].element == ELEMENT_OUTPUT;
}

bool tensor_is_input(clattn_tensor tensor) { return tensor < CLATTN_O; }

bool tensor_is_result(const clattn_problem *problem, clattn_operation operation, clattn_tensor tensor)
{
    if (!(SPECS[tensor].results_of & 1u << operation))
        return false;
    if (tensor == CLATTN_DBIAS || tensor == CLATTN_TDBIAS)
        return problem->present[CLATTN_BIAS];
    if (tensor == CLATTN_DSINK || tensor == CLATTN_TDSINK)
        return problem->present[CLATTN_SINK];
    return true;
}

bool tensor_accepts(clattn_tensor tensor, npy_type type)
{
    switch (SPECS[tensor].element) {
    case ELEMENT_BOOL:
        return type == NPY_BOOL;
    case ELEMENT_BYTE:
        return type == NPY_U8;
    case ELEMENT_INT32:
        return type == NPY_I32;
    default:
        return type == NPY_F16 || type == NPY_F32 || type == NPY_F64;
    }
}

const char *tensor_accepted_types(clattn_tensor tensor)
{
    switch (SPECS[tensor].element) {
    case ELEMENT_BOOL:
        return "bool";
    case ELEMENT_BYTE:
        return "uint8";
    case ELEMENT_INT32:
        return "int32";
    default:
        return "float16, float32 or float64";
    }
}

bool tensor_real_dtype(const clattn_problem *problem, clattn_tensor tensor, clattn_dtype *dtype)
{
    switch (SPECS[tensor].element) {
    case ELEMENT_DTYPE:
        *dtype = problem->dtype;
        return true;
    case ELEMENT_OUTPUT:
        *dtype = problem->out_dtype;
        return true;
    case ELEMENT_ROW:
        *dtype = problem->dtype == CLATTN_F64 ? CLATTN_F64 : CLATTN_F32;
        return true;
    case ELEMENT_F32:
        *dtype = CLATTN_F32;
        return true;
    default:
        return false;
    }
}

bool tensor_is_integer(clattn_tensor tensor) { return SPECS[tensor].element == ELEMENT_INT32; }

char *tensor_path(const char *directory, clattn_tensor tensor)
{
    static const char format[] = "%s/%s.npy";
    const char *name = clattn_tensor_name(tensor);
    size_t size = strlen(directory) + strlen(name) + sizeof format;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, format, directory, name);
    return path;
}
