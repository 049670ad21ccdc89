/*
 * Measures the rows of the benchmark: each problem by each method, and its
 * results before the judge.
 */
#include "bench_run.h"

#include "bench_judge.h"
#include "bench_time.h"
#include "cli.h"
#include "process.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct bench_state {
    const bench_options *options;
    bench_device device;
    bench_report *report;
    int total, done;
} bench_state;

static void show_progress(const bench_state *state, const bench_spec *spec, const char *method)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K[%d/%d] %s %s N %" PRId64 "%s, mask %s, %s", state->done, state->total,
                clattn_operation_name(spec->operation), clattn_dtype_name(spec->dtype), spec->seq_len,
                spec->causal ? " causal" : "", bench_mask_name(spec->mask), method);
}

static void end_progress(void)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

/* ---- one row ---- */

/* What the results of one problem are held against: the operation's own, and where that has no gradients those of a
 * VJP. */
typedef struct judge_pair {
    bench_judge *own, *gradients;
} judge_pair;

static bool has_gradients(clattn_operation operation)
{
    return operation == CLATTN_VJP || operation == CLATTN_HVP;
}

static bool make_judges(const bench_case *given, int heads, judge_pair *made)
{
    const clattn_operation operation = given->spec.operation;
    *made = (judge_pair){bench_judge_make(given, operation, heads), NULL};
    if (!has_gradients(operation))
        made->gradients = bench_judge_make(given, CLATTN_VJP, heads);
    return made->own && (has_gradients(operation) || made->gradients);
}

static void free_judges(judge_pair *made)
{
    bench_judge_free(made->own);
    bench_judge_free(made->gradients);
}

/* Times an opened run and judges what it has computed. */
static bool measure_run(bench_state *state, const bench_method *method, void *run, bench_judge *judge,
                        bench_verdict *verdict, bench_row *row, bench_reason *reason)
{
    const bench_pace pace = {(int)state->options->repeats, state->options->back_to_back};
    bench_time time;
    if (!bench_measure(method, run, &state->device, &pace, &time, reason))
        return false;
    row->time_ms = time.device_ms;
    row->time_spread_ms = time.spread_ms;
    row->wall_ms = time.wall_ms;
    row->repeats = time.repeats;
    row->tflops = bench_case_flops(&row->spec) / (time.device_ms * 1e9);
    row->mem_mb = (double)state->device.peak / 0x1p20;
    if (state->device.facts.is_cpu)
        row->process_mb = (double)process_peak() / 0x1p20;
    return bench_judge_run(judge, method, run, &state->device, verdict, reason);
}

static bool measure_operation(bench_state *state, const bench_method *method, const bench_job *job,
                              bench_judge *judge, bench_verdict *verdict, bench_row *row,
                              bench_reason *reason)
{
    process_forget_peak();
    bench_device_forget_peak(&state->device);
    const double start = bench_now();
    void *run = method->open(job, reason);
    if (!run)
        return false;
    bool ok = bench_run_once(method, run, &state->device, reason);
    row->warm_up_ms = bench_now() - start;
    ok = ok && measure_run(state, method, run, judge, verdict, row, reason);
    snprintf(row->engine, sizeof row->engine, "%s", method->engine(run));
    method->close(run);
    return ok;
}

/* The gradients of an operation that has none of its own, for the check alone. */
static bool check_gradients(bench_state *state, const bench_method *method, bench_job job, bench_judge *judge,
                            bench_verdict *verdict, bench_reason *reason)
{
    job.operation = CLATTN_VJP;
    void *run = method->open(&job, reason);
    if (!run)
        return false;
    const bool ok = bench_run_once(method, run, &state->device, reason) &&
                    bench_judge_run(judge, method, run, &state->device, verdict, reason);
    method->close(run);
    return ok;
}

static bench_row measure_row(bench_state *state, const bench_method *method, const bench_case *given,
                             const judge_pair *judges)
{
    bench_row row = bench_row_of(&given->spec, method->name);
    bench_verdict verdict = {0, true};
    bench_reason reason = {""};
    const bench_job job = {&state->device, given, given->spec.operation, state->options->engine};
    bool ok = method->open || bench_refuse(&reason, "built without CLBlast");
    ok = ok && measure_operation(state, method, &job, judges->own, &verdict, &row, &reason);
    ok = ok &&
         (!judges->gradients || check_gradients(state, method, job, judges->gradients, &verdict, &reason));
    if (!ok) {
        row = bench_row_of(&given->spec, method->name);
        snprintf(row.skipped, sizeof row.skipped, "%s", reason.text);
        return row;
    }
    row.max_error = verdict.max_error;
    row.grad_check = verdict.passes;
    return row;
}

/* ---- all of them ---- */

static int measure_case(bench_state *state, const bench_case *given)
{
    const struct {
        const bench_method *method;
        bool wanted;
    } methods[] = {{&bench_method_math, state->options->math},
                   {&bench_method_clattn, state->options->clattn}};
    judge_pair judges;
    show_progress(state, &given->spec, "reference");
    bool ok = make_judges(given, (int)state->options->judged_heads, &judges);
    for (size_t i = 0; ok && i < sizeof methods / sizeof methods[0]; i++) {
        if (!methods[i].wanted)
            continue;
        show_progress(state, &given->spec, methods[i].method->name);
        const bench_row row = measure_row(state, methods[i].method, given, &judges);
        ok = bench_report_add(state->report, &row);
    }
    free_judges(&judges);
    return ok ? CLI_OK : cli_fail("out of memory");
}

static int measure_spec(bench_state *state, const bench_spec *spec)
{
    bench_case given;
    show_progress(state, spec, "inputs");
    const int code =
        bench_case_make(spec, 1, &given) ? measure_case(state, &given) : cli_fail("out of memory");
    bench_case_free(&given);
    return code;
}

static void describe(const bench_device *device, bench_report *report)
{
    const time_t now = time(NULL);
    snprintf(report->device, sizeof report->device, "%s", device->facts.name);
    snprintf(report->driver, sizeof report->driver, "%s", device->facts.driver);
    snprintf(report->version, sizeof report->version, "clattn %s", clattn_version());
    strftime(report->date, sizeof report->date, "%Y-%m-%d", gmtime(&now));
}

int bench_run(const bench_options *options, bench_report *report)
{
    bench_state state = {.options = options, .report = report, .total = bench_options_count(options)};
    int code = bench_device_open(options->device, &state.device);
    if (code == CLI_OK)
        describe(&state.device, report);
    for (; state.done < state.total && code == CLI_OK; state.done++) {
        const bench_spec spec = bench_options_spec(options, state.done);
        code = measure_spec(&state, &spec);
    }
    end_progress();
    bench_device_close(&state.device);
    return code;
}
