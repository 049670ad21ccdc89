/*
 * Shapes of tensors, matched axis by axis: the first array that has an axis
 * says its size, every later one must agree. Knows nothing of files or devices.
 */
#include "shapes.h"

#include "cli.h"
#include "tensors.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* NO_AXIS is for T only: the files have no leading axis, and there is one tangent. */
enum {
    UNKNOWN = -1,
    NO_AXIS = 0
};

/* The axes of one tensor, a letter each, in the order of its file. */
typedef struct axis_list {
    char letters[NPY_MAX_RANK];
    int rank;
} axis_list;

static axis_list axes_in_file(const shapes *sizes, clattn_tensor tensor)
{
    axis_list axes = {{0}, 0};
    const char *letters = tensor_axes(tensor);
    int first = letters[0] == 'T' ? 1 : 0;
    if (first == 1 && sizes->size['T'] != NO_AXIS)
        axes.letters[axes.rank++] = 'T';
    for (const char *letter = letters + first; *letter; letter++)
        axes.letters[axes.rank++] = *letter;
    if (sizes->seq_major && tensor_has_layout(tensor)) {
        /* [B,S,H,D]: head and sequence change places. */
        char *head = &axes.letters[axes.rank - 3], *row = &axes.letters[axes.rank - 2];
        char swapped = *head;
        *head = *row;
        *row = swapped;
    }
    return axes;
}

/* The size of an axis that is not broadcast. */
static int64_t full_size(const shapes *sizes, char letter)
{
    static const char bias_axes[] = "BHMN";
    if (isdigit((unsigned char)letter))
        letter = bias_axes[letter - '0'];
    return sizes->size[toupper((unsigned char)letter)];
}

/* Strides do not tell one sequence from the next: when packed, the batch axis of the arrays is 1. */
static bool is_broadcast(const shapes *sizes, char letter, int64_t found)
{
    bool batch = letter == 'B' || letter == 'b' || letter == '0';
    return found == 1 && found != (batch ? sizes->sequences : full_size(sizes, letter));
}

/* ---- text ---- */

void shapes_format(int rank, const int64_t *shape, char text[SHAPE_TEXT_SIZE])
{
    int length = snprintf(text, SHAPE_TEXT_SIZE, "[");
    for (int axis = 0; axis < rank; axis++)
        length += snprintf(text + length, SHAPE_TEXT_SIZE - (size_t)length, "%s%" PRId64, axis ? "," : "",
                           shape[axis]);
    snprintf(text + length, SHAPE_TEXT_SIZE - (size_t)length, "]");
}

static const char *axis_name(char letter)
{
    static const struct {
        char letter;
        const char *name;
    } names[] = {{'T', "T"}, {'B', "B"}, {'H', "H"},  {'G', "Hkv"}, {'M', "M"},
                 {'N', "N"}, {'D', "D"}, {'E', "Dv"}, {'C', "B+1"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].letter == letter)
            return names[i].name;
    }
    return "?";
}

/* "[2,Hkv,N,32]": known sizes as numbers, the others by name. */
static void format_expected(const shapes *sizes, const axis_list *axes, char text[SHAPE_TEXT_SIZE])
{
    int length = snprintf(text, SHAPE_TEXT_SIZE, "[");
    for (int axis = 0; axis < axes->rank; axis++) {
        char letter = axes->letters[axis];
        int64_t size = sizes->size[toupper((unsigned char)letter)];
        char *at = text + length;
        size_t room = SHAPE_TEXT_SIZE - (size_t)length;
        const char *comma = axis ? "," : "";
        if (size == UNKNOWN)
            length += snprintf(at, room, "%s%s", comma, axis_name(letter));
        else
            length += snprintf(at, room, "%s%" PRId64 "%s", comma, size,
                               islower((unsigned char)letter) && size != 1 ? "|1" : "");
    }
    snprintf(text + length, SHAPE_TEXT_SIZE - (size_t)length, "]");
}

/* ---- matching ---- */

static bool axis_fits(const shapes *sizes, char letter, int64_t found)
{
    int64_t known = sizes->size[toupper((unsigned char)letter)];
    return known == UNKNOWN || found == known || (islower((unsigned char)letter) && found == 1);
}

static bool array_fits(const shapes *sizes, const axis_list *axes, const npy_array *array)
{
    if (array->rank != axes->rank)
        return false;
    for (int axis = 0; axis < axes->rank; axis++) {
        if (!axis_fits(sizes, axes->letters[axis], array->shape[axis]))
            return false;
    }
    return true;
}

/* The first tangent says whether there is a leading axis. */
static void learn_tangent_axis(shapes *sizes, clattn_tensor tensor, const npy_array *array)
{
    const char *letters = tensor_axes(tensor);
    bool leading = array->rank == (int)strlen(letters);
    if (letters[0] == 'T' && sizes->size['T'] == UNKNOWN && !leading)
        sizes->size['T'] = NO_AXIS;
}

static void learn_sizes(shapes *sizes, clattn_tensor tensor, const axis_list *axes, const npy_array *array)
{
    for (int axis = 0; axis < axes->rank; axis++) {
        int64_t *size = &sizes->size[toupper((unsigned char)axes->letters[axis])];
        if (*size == UNKNOWN)
            *size = array->shape[axis];
        if (tensor == CLATTN_BIAS)
            sizes->size['0' + axis] = array->shape[axis];
    }
}

/* Axes that may not be empty. */
static int check_not_empty(clattn_tensor tensor, const axis_list *axes, const npy_array *array)
{
    for (int axis = 0; axis < axes->rank; axis++) {
        char letter = axes->letters[axis];
        if (array->shape[axis] == 0 && strchr("TDEC", letter)) {
            char found[SHAPE_TEXT_SIZE];
            shapes_format(array->rank, array->shape, found);
            return cli_fail("%s: shape %s, expected %s >= 1", options_name(tensor), found, axis_name(letter));
        }
    }
    return CLI_OK;
}

static int match_tensor(shapes *sizes, clattn_tensor tensor, const npy_array *array)
{
    if (!array->data || !tensor_axes(tensor))
        return CLI_OK;
    learn_tangent_axis(sizes, tensor, array);
    axis_list axes = axes_in_file(sizes, tensor);
    if (!array_fits(sizes, &axes, array)) {
        char found[SHAPE_TEXT_SIZE], expected[SHAPE_TEXT_SIZE];
        shapes_format(array->rank, array->shape, found);
        format_expected(sizes, &axes, expected);
        return cli_fail("%s: shape %s, expected %s", options_name(tensor), found, expected);
    }
    int code = check_not_empty(tensor, &axes, array);
    if (code == CLI_OK)
        learn_sizes(sizes, tensor, &axes, array);
    return code;
}

static int check_heads(const shapes *sizes)
{
    int64_t heads = sizes->size['H'], shared = sizes->size['G'];
    if (shared == 0 ? heads == 0 : heads % shared == 0)
        return CLI_OK;
    return cli_fail("--k: %" PRId64 " heads, expected a divisor of the %" PRId64 " heads of --q", shared,
                    heads);
}

static int64_t blocks(int64_t size, int64_t block) { return size / block + (size % block != 0); }

/* The tensors that say the sizes. */
static int match_leading_tensors(shapes *sizes, const npy_array arrays[CLATTN_TENSOR_COUNT])
{
    static const clattn_tensor leading[] = {CLATTN_CU_SEQLENS_Q, CLATTN_CU_SEQLENS_K, CLATTN_Q, CLATTN_K,
                                            CLATTN_V};
    for (size_t i = 0; i < sizeof leading / sizeof leading[0]; i++) {
        int code = match_tensor(sizes, leading[i], &arrays[leading[i]]);
        if (code == CLI_OK && leading[i] == CLATTN_K)
            code = check_heads(sizes);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

int shapes_match(shapes *sizes, const run_options *options, const npy_array arrays[CLATTN_TENSOR_COUNT])
{
    bool packed = arrays[CLATTN_CU_SEQLENS_Q].data;
    for (size_t i = 0; i < sizeof sizes->size / sizeof sizes->size[0]; i++)
        sizes->size[i] = UNKNOWN;
    sizes->seq_major = options->seq_major;
    if (packed)
        sizes->size['B'] = 1;
    int code = match_leading_tensors(sizes, arrays);
    if (code != CLI_OK)
        return code;
    sizes->sequences = packed ? sizes->size['C'] - 1 : sizes->size['B'];
    if (options->block_rows > 0) {
        sizes->size['X'] = blocks(sizes->size['M'], options->block_rows);
        sizes->size['Y'] = blocks(sizes->size['N'], options->block_columns);
    }
    for (int tensor = 0; tensor < CLATTN_TENSOR_COUNT && code == CLI_OK; tensor++)
        code = match_tensor(sizes, (clattn_tensor)tensor, &arrays[tensor]);
    if (sizes->size['T'] == UNKNOWN)
        sizes->size['T'] = NO_AXIS;
    return code;
}

/* ---- results and strides ---- */

int shapes_of_result(const shapes *sizes, clattn_tensor tensor, int64_t shape[NPY_MAX_RANK])
{
    axis_list axes = axes_in_file(sizes, tensor);
    for (int axis = 0; axis < axes.rank; axis++)
        shape[axis] = sizes->size[(unsigned char)axes.letters[axis]];
    return axes.rank;
}

/* Where the stride of an axis belongs; NULL for the contiguous last one. */
static int64_t *stride_of(clattn_strides *strides, char letter)
{
    switch (letter) {
    case 'T':
        return &strides->tangent;
    case 'B':
    case 'b':
    case '0':
        return &strides->batch;
    case 'H':
    case 'h':
    case 'G':
    case '1':
        return &strides->head;
    case 'M':
    case 'm':
    case 'N':
    case 'X':
    case '2':
        return &strides->row;
    case 'n':
    case 'Y':
    case '3':
        return &strides->column;
    default:
        return NULL;
    }
}

static clattn_strides strides_of(const shapes *sizes, clattn_tensor tensor, const int64_t *shape)
{
    clattn_strides strides = {0};
    if (!tensor_axes(tensor))
        return strides;
    axis_list axes = axes_in_file(sizes, tensor);
    int64_t distance = 1;
    for (int axis = axes.rank - 1; axis >= 0; axis--) {
        char letter = axes.letters[axis];
        int64_t *stride = stride_of(&strides, letter);
        if (stride && !is_broadcast(sizes, letter, shape[axis]))
            *stride = distance;
        /* An empty axis does not make its neighbours look broadcast. */
        distance *= shape[axis] > 0 ? shape[axis] : 1;
    }
    return strides;
}

static void fill_options(const run_options *options, clattn_problem *problem)
{
    problem->dtype = options->dtype;
    problem->out_dtype = options->out_f32 ? CLATTN_F32 : options->dtype;
    problem->bias_dtype = options->dtype == CLATTN_F64 ? CLATTN_F64 : CLATTN_F32;
    if (options->has_scale)
        problem->scale = options->scale;
    problem->softcap = options->softcap;
    problem->causal = options->causal;
    problem->window_left = options->window_left;
    problem->window_right = options->window_right;
    problem->dropout = options->dropout;
    problem->dropout_seed = options->seed;
    problem->dropout_offset = options->offset;
    if (options->block_rows > 0) {
        problem->block_rows = options->block_rows;
        problem->block_columns = options->block_columns;
    }
    problem->engine = options->engine;
}

void shapes_fill_problem(const shapes *sizes, const run_options *options,
                         const npy_array arrays[CLATTN_TENSOR_COUNT], clattn_problem *problem)
{
    const clattn_sizes problem_sizes = {
        .batch = sizes->sequences,
        .heads_q = sizes->size['H'],
        .heads_kv = sizes->size['G'],
        .queries = sizes->size['M'],
        .keys = sizes->size['N'],
        .head_dim = sizes->size['D'],
        .head_dim_v = sizes->size['E'],
    };
    clattn_problem_init(problem, options->operation, &problem_sizes);
    problem->tangents = sizes->size['T'] == NO_AXIS ? 1 : sizes->size['T'];
    fill_options(options, problem);
    if (arrays[CLATTN_LOGIT_DATA].data)
        problem->logit_data_count = (int64_t)npy_count(&arrays[CLATTN_LOGIT_DATA]);
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++)
        problem->present[t] = arrays[t].data != NULL;
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        clattn_tensor tensor = (clattn_tensor)t;
        if (problem->present[t]) {
            problem->strides[t] = strides_of(sizes, tensor, arrays[t].shape);
        } else if (tensor_is_result(problem, options->operation, tensor)) {
            int64_t shape[NPY_MAX_RANK];
            shapes_of_result(sizes, tensor, shape);
            problem->present[t] = true;
            problem->strides[t] = strides_of(sizes, tensor, shape);
        }
    }
}
