/*
 * clattn check: self-test of a device. Every engine, operation, type and
 * option on small random problems, each output judged by the float64 oracle.
 * The problems are trials, as in the test suite; this file only lists and
 * counts them.
 */
#include "check.h"
#include "cli.h"
#include "convert.h"
#include "inputs.h"
#include "json.h"
#include "support/options.h"
#include "tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct check_options {
    const char *device;
    const char *engine; /* NULL: each */
    const char *logit;  /* a file: check that function instead of the device */
    const char *logit_data;
    bool full; /* every option in every type */
    bool json;
} check_options;

typedef struct check_state {
    clattn_context *context;
    bool full;
    bool has_fp64;
    bool asked; /* for one engine by name */
    bool show_progress;
    int total, done, failed;
    int refused;  /* by engines that were not asked for by name */
    double worst; /* error / allowed */
    cJSON *failures;
} check_state;

/* One problem: two tiles of queries and of keys, neither whole. */
static void set_up(struct trial *trial, clattn_operation operation, clattn_dtype dtype, int option)
{
    trial_init(trial, operation, &(clattn_sizes){2, 4, 2, 37, 71, 24, 20});
    clattn_problem *p = &trial->problem;
    p->dtype = p->out_dtype = p->bias_dtype = dtype;
    trial_add_derivatives(trial);
    if (option >= 0)
        trial_options[option].set(trial);
    trial_fill(trial, (uint64_t)(option + 2));
    if (option >= 0 && trial_options[option].finish)
        trial_options[option].finish(trial);
}

static void show_progress(const check_state *state, const char *name)
{
    if (state->show_progress)
        fprintf(stderr, "\r\033[K[%d/%d] %s", state->done, state->total, name);
}

static void note_failure(check_state *state, const char *name, const char *message)
{
    state->failed++;
    if (state->show_progress)
        fputs("\r\033[K", stderr);
    cJSON *failure = cJSON_CreateObject();
    cJSON_AddStringToObject(failure, "case", name);
    cJSON_AddStringToObject(failure, "message", message);
    cJSON_AddItemToArray(state->failures, failure);
    fprintf(stderr, "clattn: %s: %s\n", name, message);
}

static void check_case(check_state *state, const char *engine, clattn_operation operation, clattn_dtype dtype,
                       int option)
{
    char name[128];
    snprintf(name, sizeof name, "%s%s%s %s %s", engine ? engine : "", engine ? " " : "",
             clattn_operation_name(operation), clattn_dtype_name(dtype),
             option < 0 ? "plain" : trial_options[option].name);
    show_progress(state, name);
    struct trial trial;
    struct trial_report report;
    set_up(&trial, operation, dtype, option);
    trial.problem.engine = engine;
    trial_run(state->context, &trial, &report);
    trial_free(&trial);
    state->done++;
    if (report.worst > state->worst)
        state->worst = report.worst;
    if (report.status == CLATTN_UNSUPPORTED && state->full && !state->asked)
        state->refused++;
    else if (!report.passed)
        note_failure(state, name, report.message);
}

/* Option -1 is none. Not every variant of an option has code of its own, and most options' code is the same in every
 * type: what repeats is left to --full. */
static bool is_selected(const check_state *state, clattn_dtype dtype, int option)
{
    if (dtype == CLATTN_F64 && !state->has_fp64)
        return false;
    return state->full || option < 0 || (dtype == CLATTN_F32 && trial_options[option].has_code);
}

/* Runs the selected cases of an engine, or only counts them; NULL is the engine that the library chooses. */
static int check_engine(check_state *state, const char *engine, bool run)
{
    int cases = 0;
    for (int dtype = 0; dtype < CLATTN_DTYPE_COUNT; dtype++)
        for (int operation = 0; operation < CLATTN_OPERATION_COUNT; operation++)
            for (int option = -1; option < trial_option_count; option++) {
                if (!is_selected(state, (clattn_dtype)dtype, option))
                    continue;
                cases++;
                if (run)
                    check_case(state, engine, (clattn_operation)operation, (clattn_dtype)dtype, option);
            }
    return cases;
}

/* One engine, or with --full each that has not been asked for by name. */
static int check_engines(check_state *state, const check_options *options, bool run)
{
    if (options->engine || !options->full)
        return check_engine(state, options->engine, run);
    int cases = 0;
    for (int i = 0; i < clattn_engine_count(); i++)
        cases += check_engine(state, clattn_engine_name(i), run);
    return cases;
}

static int report_state(check_state *state, const char *device, bool json)
{
    if (state->show_progress)
        fputs("\r\033[K", stderr);
    const int code = state->failed ? CLI_FAILED : CLI_OK;
    const int passed = state->done - state->failed - state->refused;
    if (!json) {
        printf("%s: %d passed, %d failed", device, passed, state->failed);
        if (state->refused)
            printf(", %d not for this device or of a type that the engine does not take", state->refused);
        printf("; largest error %.2f of what is allowed\n", state->worst);
        cJSON_Delete(state->failures);
        return code;
    }
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "device", device);
    cJSON_AddNumberToObject(object, "passed", passed);
    cJSON_AddNumberToObject(object, "refused", state->refused);
    cJSON_AddNumberToObject(object, "failed", state->failed);
    cJSON_AddNumberToObject(object, "worst", state->worst);
    cJSON_AddItemToObject(object, "failures", state->failures);
    const int printed = json_print(object);
    return code != CLI_OK ? code : printed;
}

/* The data of --logit-data as f32; without it, zeros enough for most functions. */
static int read_logit_data(const char *path, logit_function *function)
{
    static const int64_t zeros = 4096;
    npy_array array = {.data = NULL};
    npy_error error;
    if (path && !npy_load(path, &array, &error))
        return cli_fail("--logit-data: %s", error.text);
    if (path && !tensor_accepts(CLATTN_LOGIT_DATA, array.type)) {
        npy_release(&array);
        return cli_fail("--logit-data: %s: expected %s", path, tensor_accepted_types(CLATTN_LOGIT_DATA));
    }
    function->data_count = path ? (int64_t)npy_count(&array) : zeros;
    function->data = calloc((size_t)function->data_count + 1, sizeof *function->data);
    for (int64_t i = 0; path && function->data && i < function->data_count; i++)
        function->data[i] = (float)convert_load(array.data, inputs_file_dtype(array.type), (size_t)i);
    npy_release(&array);
    return function->data ? CLI_OK : cli_fail("out of memory");
}

static int check_function(clattn_context *context, bool has_fp64, const check_options *options)
{
    char *text = NULL;
    logit_function function = {.text = NULL};
    int code = inputs_read_logit(options->logit, &text);
    if (code == CLI_OK)
        code = read_logit_data(options->logit_data, &function);
    function.text = text;
    if (code == CLI_OK)
        code = check_logit(context, has_fp64, &function);
    free(function.data);
    free(text);
    return code;
}

static int check_device(clattn_context *context, const clattn_device_info *facts,
                        const check_options *options)
{
    check_state state = {
        .context = context, .has_fp64 = facts->has_fp64, .show_progress = isatty(STDERR_FILENO)};
    state.failures = cJSON_CreateArray();
    state.full = options->full;
    state.asked = options->engine != NULL;
    state.total = check_engines(&state, options, false);
    check_engines(&state, options, true);
    return report_state(&state, facts->name, options->json);
}

static int check(const check_options *options)
{
    clattn_context *context;
    clattn_status status = clattn_context_open(options->device, &context);
    if (status != CLATTN_SUCCESS)
        return cli_library_failure(status);
    clattn_device_info facts;
    status = clattn_context_describe(context, &facts);
    int code;
    if (status != CLATTN_SUCCESS)
        code = cli_library_failure(status);
    else if (options->logit)
        code = check_function(context, facts.has_fp64, options);
    else
        code = check_device(context, &facts, options);
    clattn_context_release(context);
    return code;
}

static void print_help(void)
{
    puts("usage: clattn check [--device D] [--engine E] [--full] [--json]\n"
         "       clattn check --logit FILE.cl [--logit-data F.npy] [--device D]\n"
         "\n"
         "Self-test of a device: every operation in every type, and with every option in f32,\n"
         "by the engine that the library chooses, on small random problems; each output is\n"
         "compared with a float64 reference computed on the host. Exit code 0 when all pass, 1\n"
         "when one does not. The first run compiles a program for each combination of type and\n"
         "option, which takes minutes on some drivers.\n"
         "\n"
         "  --device D   index or part of a name (default: the first GPU, else the first device)\n"
         "  --engine E   this engine\n"
         "  --full       every variant of every option in every type, on every engine\n"
         "  --json       one JSON object on stdout\n"
         "  --logit F    check this logit function instead: its dy and ddy against finite\n"
         "               differences over x = -6 .. 6\n"
         "  --logit-data F  the array that it gets as data (default: 4096 zeros)\n"
         "  --help       this text");
}

static bool is_engine(const char *name)
{
    for (int i = 0; i < clattn_engine_count(); i++)
        if (strcmp(clattn_engine_name(i), name) == 0)
            return true;
    return false;
}

static int parse(int argc, char **argv, check_options *options)
{
    *options = (check_options){.device = NULL};
    for (int i = 1; i < argc; i++) {
        bool *flag = strcmp(argv[i], "--json") == 0   ? &options->json
                     : strcmp(argv[i], "--full") == 0 ? &options->full
                                                      : NULL;
        if (flag) {
            *flag = true;
            continue;
        }
        const char **value = strcmp(argv[i], "--device") == 0       ? &options->device
                             : strcmp(argv[i], "--engine") == 0     ? &options->engine
                             : strcmp(argv[i], "--logit") == 0      ? &options->logit
                             : strcmp(argv[i], "--logit-data") == 0 ? &options->logit_data
                                                                    : NULL;
        if (!value)
            return cli_usage("clattn check", "unexpected argument '%s'", argv[i]);
        /* "--device --json" forgot the device; names begin with no two dashes */
        if (i + 1 == argc || strncmp(argv[i + 1], "--", 2) == 0)
            return cli_usage("clattn check", "%s needs a value", argv[i]);
        *value = argv[++i];
    }
    if (options->logit_data && !options->logit)
        return cli_usage("clattn check", "--logit-data without --logit");
    if (options->engine && !is_engine(options->engine))
        return cli_usage("clattn check", "--engine: '%s' is no engine; `clattn info` lists them",
                         options->engine);
    return CLI_OK;
}

int clattn_cmd_check(int argc, char **argv)
{
    if (cli_wants_help(argc, argv)) {
        print_help();
        return CLI_OK;
    }
    check_options options;
    const int code = parse(argc, argv, &options);
    return code != CLI_OK ? code : check(&options);
}
