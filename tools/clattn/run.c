/*
 * clattn run: one operation on .npy files, from options to report. The order
 * of the steps is here; each step is another file's job.
 */
#include "cli.h"
#include "compare.h"
#include "device_run.h"
#include "inputs.h"
#include "options.h"
#include "report.h"
#include "results.h"
#include "shapes.h"

#include <stdlib.h>

/* Everything that a run holds, so that one place lets go of it. */
typedef struct run_state {
    run_options options;
    npy_array inputs[CLATTN_TENSOR_COUNT];
    char *logit;
    shapes sizes;
    clattn_problem problem;
    device_run device;
    npy_array results[CLATTN_TENSOR_COUNT];
    device_timing timing;
    clattn_tile_count tiles;
    comparison comparisons[CLATTN_TENSOR_COUNT];
    results_files files;
} run_state;

static int make_problem(run_state *state)
{
    int code = inputs_read(&state->options, state->inputs);
    if (code == CLI_OK && state->options.logit)
        code = inputs_read_logit(state->options.logit, &state->logit);
    if (code == CLI_OK)
        code = shapes_match(&state->sizes, &state->options, state->inputs);
    if (code != CLI_OK)
        return code;
    shapes_fill_problem(&state->sizes, &state->options, state->inputs, &state->problem);
    state->problem.logit = state->logit;
    return inputs_check_values(&state->problem, state->inputs);
}

/* Hands one input to the device; the host's array is not needed after that. */
static int upload_input(run_state *state, clattn_tensor tensor)
{
    npy_array *array = &state->inputs[tensor];
    size_t bytes;
    void *copy = inputs_device_copy(&state->problem, tensor, array, &bytes);
    int code = copy ? device_run_add(&state->device, tensor, copy, bytes)
                    : cli_fail("%s: host memory for %zu bytes", clattn_tensor_name(tensor), bytes);
    free(copy);
    npy_release(array);
    return code;
}

static int upload_inputs(run_state *state)
{
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        if (!state->inputs[t].data)
            continue;
        int code = upload_input(state, (clattn_tensor)t);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

static int compute(run_state *state)
{
    const run_options *options = &state->options;
    int code = device_run_open(&state->device, options->device, options->operation, &state->problem);
    if (code == CLI_OK)
        code = upload_inputs(state);
    if (code == CLI_OK)
        code = results_prepare(&state->device, &state->sizes, &state->problem);
    if (code == CLI_OK)
        code = device_run_execute(&state->device);
    if (code == CLI_OK)
        code = results_fetch(&state->device, &state->sizes, &state->problem, state->results);
    if (code == CLI_OK && options->json)
        code = device_run_count_tiles(&state->device, &state->tiles);
    if (code == CLI_OK && options->time > 0)
        code = device_run_time(&state->device, options->time, &state->timing);
    return code;
}

/* Whatever can fail is done before the first file appears, the report's way to its reader included. */
static int deliver(run_state *state)
{
    const run_options *options = &state->options;
    int code = CLI_OK;
    if (options->expect)
        code = compare_results(options, &state->problem, state->results, state->comparisons);
    if (code == CLI_OK && options->out)
        code = results_stage(options->out, state->results, &state->files);
    if (code != CLI_OK)
        return code;
    const report content = {options,        &state->device, state->results, state->comparisons,
                            &state->timing, &state->tiles};
    code = report_print(&content);
    if (code == CLI_OK)
        code = cli_flush();
    if (code == CLI_OK)
        code = results_commit(&state->files);
    int bad = compare_count_bad(state->comparisons);
    if (code == CLI_OK && bad > 0)
        code = cli_fail("--expect: %d of the results beyond the tolerance", bad);
    return code;
}

static void release(run_state *state)
{
    device_run_close(&state->device);
    results_discard(&state->files);
    for (int t = 0; t < CLATTN_TENSOR_COUNT; t++) {
        npy_release(&state->inputs[t]);
        npy_release(&state->results[t]);
    }
    free(state->logit);
}

int clattn_cmd_run(int argc, char **argv)
{
    if (cli_wants_help(argc, argv)) {
        options_print_help();
        return CLI_OK;
    }
    run_state state = {0};
    int code = options_parse(argc, argv, &state.options);
    if (code == CLI_OK)
        code = make_problem(&state);
    if (code == CLI_OK)
        code = compute(&state);
    if (code == CLI_OK)
        code = deliver(&state);
    release(&state);
    return code;
}
