/*
 * The arrays that the user gives: read, checked, converted for the device.
 * Knows nothing of OpenCL calls.
 */
#include "inputs.h"

#include "cli.h"
#include "convert.h"
#include "files.h"
#include "tensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int32_t load_integer(const npy_array *array, size_t index)
{
    return ((const int32_t *)array->data)[index];
}

/* ---- reading ---- */

static int read_input(clattn_tensor tensor, const char *path, npy_array *array)
{
    npy_error error;
    if (!npy_load(path, array, &error))
        return cli_fail("%s: %s", options_name(tensor), error.text);
    if (!tensor_accepts(tensor, array->type))
        return cli_fail("%s: %s: type %s, expected %s", options_name(tensor), path,
                        npy_type_name(array->type), tensor_accepted_types(tensor));
    return CLI_OK;
}

int inputs_read(const run_options *options, npy_array arrays[CLATTN_TENSOR_COUNT])
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        if (!options->files[t])
            continue;
        int code = read_input((clattn_tensor)t, options->files[t], &arrays[t]);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

/* Reads a whole file into *text; false with errno set. */
static bool read_text(FILE *file, char **text, size_t *length)
{
    size_t capacity = 4096;
    char *buffer = malloc(capacity);
    size_t used = 0;
    while (buffer) {
        used += fread(buffer + used, 1, capacity - used - 1, file);
        if (used < capacity - 1)
            break;
        capacity *= 2;
        char *larger = realloc(buffer, capacity);
        if (!larger)
            free(buffer);
        buffer = larger;
    }
    if (!buffer || ferror(file)) {
        free(buffer);
        return false;
    }
    buffer[used] = '\0';
    *text = buffer;
    *length = used;
    return true;
}

int inputs_read_logit(const char *path, char **text)
{
    const char *why;
    uint64_t size;
    FILE *file = files_open(path, &size, &why);
    if (!file)
        return cli_fail("--logit: %s: %s", path, why);
    size_t length;
    bool ok = read_text(file, text, &length);
    int reason = errno;
    fclose(file);
    if (!ok)
        return cli_fail("--logit: %s: %s", path, strerror(reason));
    if (memchr(*text, '\0', length))
        return cli_fail("--logit: %s: has a zero byte, expected OpenCL C text", path);
    return CLI_OK;
}

/* ---- values ---- */

static int check_kv_lengths(const npy_array *array, int64_t keys)
{
    size_t count = npy_count(array);
    for (size_t b = 0; b < count; b++) {
        int64_t length = load_integer(array, b);
        if (length < 0 || length > keys)
            return cli_fail("--kv-lengths: entry %zu is %" PRId64 ", expected 0 to %" PRId64 " (N)", b,
                            length, keys);
    }
    return CLI_OK;
}

static int check_offsets(clattn_tensor tensor, const npy_array *array, int64_t total)
{
    size_t count = npy_count(array);
    int64_t previous = 0;
    for (size_t b = 0; b < count; b++) {
        int64_t offset = load_integer(array, b);
        if (offset < previous || offset > total)
            return cli_fail(
                "%s: entry %zu is %" PRId64 ", expected %" PRId64 " (%s) to %" PRId64 " (the total)",
                options_name(tensor), b, offset, previous, b > 0 ? "the entry before" : "the least", total);
        previous = offset;
    }
    return CLI_OK;
}

static int check_blocks(const npy_array *array)
{
    size_t count = npy_count(array);
    for (size_t i = 0; i < count; i++) {
        int kind = ((const uint8_t *)array->data)[i];
        if (kind > 2)
            return cli_fail("--block-mask: entry %zu is %d, expected 0, 1 or 2", i, kind);
    }
    return CLI_OK;
}

int inputs_check_values(const clattn_problem *problem, const npy_array arrays[CLATTN_TENSOR_COUNT])
{
    int code = CLI_OK;
    if (problem->present[CLATTN_KV_LENGTHS])
        code = check_kv_lengths(&arrays[CLATTN_KV_LENGTHS], problem->keys);
    if (code == CLI_OK && problem->present[CLATTN_CU_SEQLENS_Q])
        code = check_offsets(CLATTN_CU_SEQLENS_Q, &arrays[CLATTN_CU_SEQLENS_Q], problem->queries);
    if (code == CLI_OK && problem->present[CLATTN_CU_SEQLENS_K])
        code = check_offsets(CLATTN_CU_SEQLENS_K, &arrays[CLATTN_CU_SEQLENS_K], problem->keys);
    if (code == CLI_OK && problem->present[CLATTN_BLOCK_MASK])
        code = check_blocks(&arrays[CLATTN_BLOCK_MASK]);
    return code;
}

/* ---- conversion ---- */

clattn_dtype inputs_file_dtype(npy_type type)
{
    switch (type) {
    case NPY_F16:
        return CLATTN_F16;
    case NPY_F32:
        return CLATTN_F32;
    default:
        return CLATTN_F64;
    }
}

static void *copy_reals(const npy_array *array, clattn_dtype dtype, size_t count)
{
    clattn_dtype file_dtype = inputs_file_dtype(array->type);
    void *copy = malloc(count * convert_size(dtype) + 1);
    for (size_t i = 0; copy && i < count; i++)
        convert_store(copy, dtype, i, convert_load(array->data, file_dtype, i));
    return copy;
}

static void *copy_integers(const npy_array *array, size_t count)
{
    int32_t *copy = malloc(count * sizeof *copy + 1);
    for (size_t i = 0; copy && i < count; i++)
        copy[i] = load_integer(array, i);
    return copy;
}

static void *copy_bytes(const npy_array *array, size_t count)
{
    void *copy = malloc(count + 1);
    if (copy)
        memcpy(copy, array->data, count);
    return copy;
}

void *inputs_device_copy(const clattn_problem *problem, clattn_tensor tensor, const npy_array *array,
                         size_t *bytes)
{
    size_t count = npy_count(array);
    clattn_dtype dtype;
    if (tensor_real_dtype(problem, tensor, &dtype)) {
        *bytes = count * convert_size(dtype);
        return copy_reals(array, dtype, count);
    }
    if (tensor_is_integer(tensor)) {
        *bytes = count * sizeof(int32_t);
        return copy_integers(array, count);
    }
    *bytes = count;
    return copy_bytes(array, count);
}
