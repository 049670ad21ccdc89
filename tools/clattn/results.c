/*
 * Results of a run: fetched from the device, and written to a directory.
 * Knows nothing of how they were computed.
 */
#include "results.h"

#include "cli.h"
#include "convert.h"
#include "directory.h"
#include "tensors.h"

#include <stdlib.h>
#include <string.h>

/* ---- from the device ---- */

static bool is_result(const device_run *device, const clattn_problem *problem, clattn_tensor tensor)
{
    return problem->present[tensor] && tensor_is_result(problem, device->info.operation, tensor);
}

int results_prepare(device_run *device, const shapes *sizes, const clattn_problem *problem)
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        clattn_tensor tensor = (clattn_tensor)t;
        if (!is_result(device, problem, tensor))
            continue;
        clattn_dtype dtype = CLATTN_F32;
        tensor_real_dtype(problem, tensor, &dtype);
        npy_array result = {0};
        result.rank = shapes_of_result(sizes, tensor, result.shape);
        int code = device_run_add(device, tensor, NULL, npy_count(&result) * convert_size(dtype));
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

static int fetch_result(device_run *device, const clattn_problem *problem, clattn_tensor tensor,
                        npy_array *result)
{
    clattn_dtype stored = CLATTN_F32;
    tensor_real_dtype(problem, tensor, &stored);
    clattn_dtype file_dtype = result->type == NPY_F64 ? CLATTN_F64 : CLATTN_F32;
    size_t count = npy_count(result);
    void *elements = malloc(count * convert_size(stored) + 1);
    if (!elements)
        return cli_fail("%s: host memory for %zu bytes", clattn_tensor_name(tensor),
                        count * convert_size(stored));
    int code = device_run_read(device, tensor, elements, count * convert_size(stored));
    for (size_t i = 0; code == CLI_OK && i < count; i++)
        convert_store(result->data, file_dtype, i, convert_load(elements, stored, i));
    free(elements);
    return code;
}

int results_fetch(device_run *device, const shapes *sizes, const clattn_problem *problem,
                  npy_array results[CLATTN_TENSOR_COUNT])
{
    npy_type type = problem->dtype == CLATTN_F64 ? NPY_F64 : NPY_F32;
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        clattn_tensor tensor = (clattn_tensor)t;
        if (!is_result(device, problem, tensor))
            continue;
        int64_t shape[NPY_MAX_RANK];
        int rank = shapes_of_result(sizes, tensor, shape);
        if (!npy_allocate(&results[t], type, rank, shape))
            return cli_fail("%s: host memory for its elements", clattn_tensor_name(tensor));
        int code = fetch_result(device, problem, tensor, &results[t]);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

/* ---- to files ---- */

static int stage(const npy_array *result, clattn_tensor tensor, const char *directory, results_files *files)
{
    npy_error error;
    files->paths[tensor] = tensor_path(directory, tensor);
    if (!files->paths[tensor])
        return cli_fail("out of memory");
    if (!npy_stage(files->paths[tensor], result, &files->staged[tensor], &error))
        return cli_fail("--out: %s", error.text);
    return CLI_OK;
}

int results_stage(const char *directory, const npy_array results[CLATTN_TENSOR_COUNT], results_files *files)
{
    int code = directory_make(directory);
    for (int t = 0; t < CLATTN_TENSOR_COUNT && code == CLI_OK; t++) {
        if (results[t].data)
            code = stage(&results[t], (clattn_tensor)t, directory, files);
    }
    return code;
}

int results_commit(results_files *files)
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        npy_error error;
        if (files->staged[t].temporary && !npy_commit(&files->staged[t], &error))
            return cli_fail("--out: %s", error.text);
    }
    return CLI_OK;
}

void results_discard(results_files *files)
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        npy_discard(&files->staged[t]);
        free(files->paths[t]);
        files->paths[t] = NULL;
    }
}
