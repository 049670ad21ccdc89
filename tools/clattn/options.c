/*
 * The options of `clattn run`. One table drives parsing and --help. Knows
 * nothing of arrays or devices.
 */
#include "options.h"

#include "cli.h"
#include "numbers.h"

#include <stdio.h>
#include <string.h>

static const char COMMAND[] = "clattn run";

/* ---- setters: NULL if the text was fine, else what was expected ---- */

/* Index of a text in a list that ends in NULL; -1 if it is not there. */
static int index_of(const char *text, const char *const *list)
{
    for (int i = 0; list[i]; i++) {
        if (strcmp(text, list[i]) == 0)
            return i;
    }
    return -1;
}

static const char *set_layout(run_options *options, const char *text)
{
    static const char *const names[] = {"bhsd", "bshd", NULL};
    int found = index_of(text, names);
    options->seq_major = found == 1;
    return found < 0 ? "bhsd or bshd" : NULL;
}

static const char *set_causal(run_options *options, const char *text)
{
    static const char *const names[] = {"none", "top-left", "bottom-right", NULL};
    static const clattn_causal values[] = {CLATTN_CAUSAL_NONE, CLATTN_CAUSAL_TOP_LEFT,
                                           CLATTN_CAUSAL_BOTTOM_RIGHT};
    int found = index_of(text, names);
    if (found < 0)
        return "none, top-left or bottom-right";
    options->causal = values[found];
    return NULL;
}

static const char *set_window(run_options *options, const char *text)
{
    int64_t *left = &options->window_left, *right = &options->window_right;
    bool ok = parse_int64_pair(text, left, right) && *left >= -1 && *right >= -1;
    return ok ? NULL : "LEFT,RIGHT, each an integer >= 0, or -1 for unbounded";
}

static const char *set_softcap(run_options *options, const char *text)
{
    return parse_double(text, &options->softcap) && options->softcap >= 0
               ? NULL
               : "a finite number >= 0 in the range of f64";
}

static const char *set_scale(run_options *options, const char *text)
{
    options->has_scale = parse_double(text, &options->scale);
    return options->has_scale ? NULL : "a finite number in the range of f64";
}

static const char *set_dropout(run_options *options, const char *text)
{
    bool ok = parse_double(text, &options->dropout) && options->dropout >= 0 && options->dropout < 1;
    return ok ? NULL : "a probability, 0 <= P < 1, in the range of f64";
}

static const char *set_seed(run_options *options, const char *text)
{
    return parse_uint64(text, &options->seed) ? NULL : "an integer from 0 to 2^64 - 1";
}

static const char *set_offset(run_options *options, const char *text)
{
    return parse_uint64(text, &options->offset) ? NULL : "an integer from 0 to 2^64 - 1";
}

static const char *set_block(run_options *options, const char *text)
{
    int64_t *rows = &options->block_rows, *columns = &options->block_columns;
    return parse_int64_pair(text, rows, columns) && *rows >= 1 && *columns >= 1 ? NULL
                                                                                : "BM,BN, two integers >= 1";
}

static const char *set_logit(run_options *options, const char *text)
{
    options->logit = text;
    return NULL;
}

static const char *set_dtype(run_options *options, const char *text)
{
    for (int dtype = 0; dtype < CLATTN_DTYPE_COUNT; dtype++) {
        if (strcmp(text, clattn_dtype_name((clattn_dtype)dtype)) == 0) {
            options->dtype = (clattn_dtype)dtype;
            return NULL;
        }
    }
    return "f32, f16, bf16 or f64";
}

static const char *set_out_dtype(run_options *options, const char *text)
{
    static const char *const names[] = {"same", "f32", NULL};
    int found = index_of(text, names);
    options->out_f32 = found == 1;
    return found < 0 ? "same or f32" : NULL;
}

static const char *set_device(run_options *options, const char *text)
{
    options->device = text;
    return NULL;
}

static const char *set_engine(run_options *options, const char *text)
{
    options->engine = text;
    return NULL;
}

static const char *set_out(run_options *options, const char *text)
{
    options->out = text;
    return NULL;
}

static const char *set_expect(run_options *options, const char *text)
{
    options->expect = text;
    return NULL;
}

static const char *set_tolerance(run_options *options, const char *text)
{
    return parse_double(text, &options->tolerance) && options->tolerance >= 0
               ? NULL
               : "a finite number >= 0 in the range of f64";
}

static const char *set_time(run_options *options, const char *text)
{
    bool ok = parse_int64(text, &options->time) && options->time >= 1 && options->time <= 1000000;
    return ok ? NULL : "an integer from 1 to 1000000";
}

static const char *set_json(run_options *options, const char *text)
{
    (void)text;
    options->json = true;
    return NULL;
}

/* ---- the table ---- */

enum {
    FORWARD = 1 << CLATTN_FORWARD,
    JVP = 1 << CLATTN_JVP,
    VJP = 1 << CLATTN_VJP,
    HVP = 1 << CLATTN_HVP,
    ALL = FORWARD | JVP | VJP | HVP
};

typedef struct run_option {
    const char *name;                                           /* NULL: `help` is the heading of a group */
    const char *argument;                                       /* NULL: a flag */
    const char *help;                                           /* lines separated by \n */
    const char *(*set)(run_options *options, const char *text); /* NULL: the file of `tensor` */
    clattn_tensor tensor;
    unsigned operations; /* that accept it */
} run_option;

#define HEADING(text)                                                                                        \
    {                                                                                                        \
        NULL, NULL, text, NULL, CLATTN_Q, 0                                                                  \
    }
#define TENSOR(name, tensor, operations, help)                                                               \
    {                                                                                                        \
        name, "FILE", help, NULL, tensor, operations                                                         \
    }
#define VALUE(name, argument, set, help)                                                                     \
    {                                                                                                        \
        name, argument, help, set, CLATTN_Q, ALL                                                             \
    }

static const run_option OPTIONS[] = {
    HEADING("Inputs (float16, float32 or float64; rounded to --dtype, to nearest even)"),
    TENSOR("--q", CLATTN_Q, ALL, "queries [B,H,M,D]; required"),
    TENSOR("--k", CLATTN_K, ALL, "keys [B,Hkv,N,D], H a multiple of Hkv; required"),
    TENSOR("--v", CLATTN_V, ALL, "values [B,Hkv,N,Dv]; required"),
    VALUE("--layout", "NAME", set_layout,
          "bhsd (default), or bshd: the arrays with a head dim are [B,S,H,D], results too;\n"
          "lse, dlse and their tangents are [B,H,M] in both"),

    HEADING("Tangents (a missing one is 0). T tangents at once: a leading axis T on all that are given;\n"
            "to, tlse and td* then have it too, also for T = 1"),
    TENSOR("--tq", CLATTN_TQ, JVP | HVP, "of q"),
    TENSOR("--tk", CLATTN_TK, JVP | HVP, "of k"),
    TENSOR("--tv", CLATTN_TV, JVP | HVP, "of v"),
    TENSOR("--tbias", CLATTN_TBIAS, JVP | HVP, "of --bias, with its shape"),
    TENSOR("--tsink", CLATTN_TSINK, JVP | HVP, "of --sink"),
    TENSOR("--tdo", CLATTN_TDO, HVP, "of do"),
    TENSOR("--tdlse", CLATTN_TDLSE, HVP, "of dlse"),

    HEADING("Cotangents"),
    TENSOR("--do", CLATTN_DO, VJP | HVP, "of o, [B,H,M,Dv]; required"),
    TENSOR("--dlse", CLATTN_DLSE, VJP | HVP, "of lse, [B,H,M]; missing = 0"),

    HEADING("Logits"),
    VALUE("--scale", "S", set_scale, "factor of q k^T, default 1/sqrt(D)"),
    VALUE("--softcap", "C", set_softcap, "logits become C tanh(x/C); 0 (default): they do not"),
    TENSOR("--bias", CLATTN_BIAS, ALL,
           "added to the logits, [B|1,H|1,M|1,N|1], kept in f32 (f64 under f64); -inf masks out;\n"
           "has a gradient"),
    TENSOR("--alibi", CLATTN_ALIBI, ALL, "slopes [H]: the logits lose slope |i + N - M - j|"),
    TENSOR("--sink", CLATTN_SINK, ALL, "[H], an extra logit per head that has no value; has a gradient"),
    VALUE("--logit", "FILE.cl", set_logit,
          "OpenCL C that defines void clattn_logit(real x, int b, int h, int i, int j,\n"
          "__global const float *data, real *y, real *dy, real *ddy): the new logit and its first\n"
          "and second derivative in x; after scale and softcap, before the bias. real is float,\n"
          "double under f64"),
    TENSOR("--logit-data", CLATTN_LOGIT_DATA, ALL, "the array that it gets as data, any shape, as f32"),

    HEADING("Masks (all that are given hold; a row with nothing to attend to gives o = 0, lse = -inf)"),
    TENSOR("--mask", CLATTN_MASK, ALL, "bool [B|1,H|1,M|1,N|1], true = attend"),
    VALUE("--causal", "NAME", set_causal, "none (default), top-left (j <= i), bottom-right (j <= i + N - M)"),
    VALUE("--window", "L,R", set_window,
          "diag - L <= j <= diag + R; -1 = unbounded. diag is i for --causal top-left, else\n"
          "i + N - M"),
    TENSOR("--kv-lengths", CLATTN_KV_LENGTHS, ALL,
           "int32 [B]: the first so many keys of each batch are there"),
    TENSOR("--q-segments", CLATTN_Q_SEGMENTS, ALL,
           "int32 [B,M]: attend within equal ids; a negative id attends to nothing"),
    TENSOR("--kv-segments", CLATTN_KV_SEGMENTS, ALL, "int32 [B,N]; goes with --q-segments"),
    TENSOR("--block-mask", CLATTN_BLOCK_MASK, ALL,
           "uint8 [B|1,H|1,ceil(M/BM),ceil(N/BN)]: 0 skip the block, 1 attend, 2 as --mask says"),
    VALUE("--block", "BM,BN", set_block, "the size of its blocks; goes with --block-mask"),

    HEADING("Packed batches of sequences (not with --kv-lengths)"),
    TENSOR("--cu-seqlens-q", CLATTN_CU_SEQLENS_Q, ALL,
           "int32 [sequences + 1]: where each sequence starts and ends; q is then [1,H,total,D],\n"
           "or [1,total,H,D] with --layout bshd; masks, bias and segments go by packed positions"),
    TENSOR("--cu-seqlens-k", CLATTN_CU_SEQLENS_K, ALL, "the same for k and v; goes with --cu-seqlens-q"),

    HEADING("Dropout of attention probabilities"),
    VALUE("--dropout", "P", set_dropout, "probability, 0 <= P < 1, default 0"),
    VALUE("--seed", "S", set_seed, "64-bit key of the random numbers, default 0"),
    VALUE("--offset", "O", set_offset, "64-bit counter of the random numbers, default 0"),

    HEADING("How it is computed"),
    VALUE("--dtype", "TYPE", set_dtype, "f32 (default), f16, bf16 or f64"),
    VALUE("--out-dtype", "TYPE", set_out_dtype,
          "what results are rounded to: same as --dtype (default), or f32"),
    VALUE("--device", "D", set_device,
          "index, or part of a name that fits one device; see clattn info. Default: the first GPU,\n"
          "else the first device"),
    VALUE("--engine", "E", set_engine, "force one; clattn info shows what is chosen without it"),

    HEADING("What becomes of the results"),
    VALUE("--out", "DIR", set_out,
          "write each to DIR/NAME.npy, as float32 (float64 under --dtype f64); DIR is made if\n"
          "missing. Without it nothing is written"),
    VALUE("--expect", "DIR", set_expect,
          "compare each that DIR/NAME.npy has, print its relative (Frobenius) and maximum error,\n"
          "exit 1 beyond the tolerance; results are written all the same"),
    VALUE("--tolerance", "X", set_tolerance,
          "bar for the relative error. Default, forward / others: f32 2e-6 / 1e-5, f16 1e-3 / 2e-3,\n"
          "bf16 6e-3 / 1.5e-2, f64 1e-12"),
    VALUE("--time", "N", set_time, "run N more times and print the median time"),
    {"--json", NULL,
     "one JSON object on stdout: op, device, engine, tiles, flops, bytes, workspace_bytes,\n"
     "device_bytes, tiles_visited, tiles_skipped; with --time median_ms, min_ms, tflops; with --expect "
     "errors",
     set_json, CLATTN_Q, ALL},
};
enum {
    OPTION_COUNT = sizeof OPTIONS / sizeof OPTIONS[0]
};

static bool gives_tensor(const run_option *option) { return option->name && !option->set; }

const char *options_name(clattn_tensor tensor)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        if (gives_tensor(&OPTIONS[i]) && OPTIONS[i].tensor == tensor)
            return OPTIONS[i].name;
    }
    return NULL;
}

/* ---- help ---- */

static const char *operation_note(unsigned operations)
{
    switch (operations) {
    case JVP | HVP:
        return " (jvp, hvp)";
    case VJP | HVP:
        return " (vjp, hvp)";
    case HVP:
        return " (hvp)";
    default:
        return "";
    }
}

void options_print_help(void)
{
    puts("usage: clattn run forward|jvp|vjp|hvp --q FILE --k FILE --v FILE [options]\n"
         "\n"
         "Runs one operation of attention on .npy files. Results of each operation:\n"
         "  forward   o lse                     o = softmax(scale q k^T + ...) v, lse = log-sum-exp of the "
         "logits\n"
         "  jvp       o lse to tlse             and their tangents, along the tangents of the inputs\n"
         "  vjp       o lse dq dk dv            and the gradients of <do,o> + <dlse,lse>;\n"
         "                                      dbias with --bias, dsink with --sink\n"
         "  hvp       all of these, and tdq tdk tdv (tdbias, tdsink), the tangents of the gradients\n"
         "\n"
         "All options work together unless it says not.");
    for (int i = 0; i < OPTION_COUNT; i++) {
        if (OPTIONS[i].name)
            cli_print_option(OPTIONS[i].name, OPTIONS[i].argument, OPTIONS[i].help,
                             operation_note(OPTIONS[i].operations));
        else
            printf("\n%s\n", OPTIONS[i].help);
    }
    puts("\n  --help                this text\n"
         "\n"
         "Exit codes: 0 success, 1 failed (a file, the device, a result beyond the tolerance), 2 wrong "
         "usage.");
}

/* ---- parsing ---- */

static int find_option(const char *name)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        if (OPTIONS[i].name && strcmp(OPTIONS[i].name, name) == 0)
            return i;
    }
    return -1;
}

static int parse_operation(const char *text, clattn_operation *operation)
{
    for (int op = 0; op < CLATTN_OPERATION_COUNT; op++) {
        if (strcmp(text, clattn_operation_name((clattn_operation)op)) == 0) {
            *operation = (clattn_operation)op;
            return CLI_OK;
        }
    }
    return cli_usage(COMMAND, "operation '%s', expected forward, jvp, vjp or hvp", text);
}

static int apply_option(const run_option *option, const char *text, run_options *options)
{
    if (!(option->operations & 1u << options->operation))
        return cli_usage(COMMAND, "%s: not an input of %s%s", option->name,
                         clattn_operation_name(options->operation), operation_note(option->operations));
    if (!option->set) {
        options->files[option->tensor] = text;
        return CLI_OK;
    }
    const char *expected = option->set(options, text);
    return expected ? cli_usage(COMMAND, "%s: '%s', expected %s", option->name, text, expected) : CLI_OK;
}

/* Parses argv[2..], the options after the operation. */
static int parse_options(int argc, char **argv, run_options *options)
{
    bool seen[OPTION_COUNT] = {false};
    for (int i = 2; i < argc; i++) {
        int found = find_option(argv[i]);
        if (found < 0)
            return cli_usage(COMMAND, "unknown option '%s'", argv[i]);
        const run_option *option = &OPTIONS[found];
        if (seen[found])
            return cli_usage(COMMAND, "%s: given twice", option->name);
        seen[found] = true;
        const char *text = NULL;
        if (option->argument) {
            /* "--q --k FILE" forgot a file; numbers may begin with one dash, never with two. */
            if (i + 1 == argc || strncmp(argv[i + 1], "--", 2) == 0)
                return cli_usage(COMMAND, "%s: expected %s after it", option->name, option->argument);
            text = argv[++i];
        }
        int code = apply_option(option, text, options);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

/* ---- what goes with what ---- */

static int check_required(const run_options *options)
{
    static const clattn_tensor required[] = {CLATTN_Q, CLATTN_K, CLATTN_V, CLATTN_DO};
    bool has_cotangents = options->operation == CLATTN_VJP || options->operation == CLATTN_HVP;
    int count = has_cotangents ? 4 : 3;
    for (int i = 0; i < count; i++) {
        if (!options->files[required[i]])
            return cli_usage(COMMAND, "%s: missing, %s needs it", options_name(required[i]),
                             clattn_operation_name(options->operation));
    }
    return CLI_OK;
}

static int check_companions(const run_options *options)
{
    const struct {
        const char *name, *companion;
        bool given, companion_given;
    } rules[] = {
        {"--tbias", "--bias", options->files[CLATTN_TBIAS], options->files[CLATTN_BIAS]},
        {"--tsink", "--sink", options->files[CLATTN_TSINK], options->files[CLATTN_SINK]},
        {"--q-segments", "--kv-segments", options->files[CLATTN_Q_SEGMENTS],
         options->files[CLATTN_KV_SEGMENTS]},
        {"--kv-segments", "--q-segments", options->files[CLATTN_KV_SEGMENTS],
         options->files[CLATTN_Q_SEGMENTS]},
        {"--cu-seqlens-q", "--cu-seqlens-k", options->files[CLATTN_CU_SEQLENS_Q],
         options->files[CLATTN_CU_SEQLENS_K]},
        {"--cu-seqlens-k", "--cu-seqlens-q", options->files[CLATTN_CU_SEQLENS_K],
         options->files[CLATTN_CU_SEQLENS_Q]},
        {"--block-mask", "--block", options->files[CLATTN_BLOCK_MASK], options->block_rows > 0},
        {"--block", "--block-mask", options->block_rows > 0, options->files[CLATTN_BLOCK_MASK]},
        {"--logit-data", "--logit", options->files[CLATTN_LOGIT_DATA], options->logit},
        {"--tolerance", "--expect", options->tolerance >= 0, options->expect},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].given && !rules[i].companion_given)
            return cli_usage(COMMAND, "%s: %s is missing", rules[i].name, rules[i].companion);
    }
    if (options->files[CLATTN_KV_LENGTHS] && options->files[CLATTN_CU_SEQLENS_Q])
        return cli_usage(COMMAND, "--kv-lengths: not together with --cu-seqlens-q and --cu-seqlens-k");
    return CLI_OK;
}

int options_parse(int argc, char **argv, run_options *options)
{
    *options = (run_options){.window_left = -1, .window_right = -1, .tolerance = -1};
    if (argc < 2)
        return cli_usage(COMMAND, "the operation is missing, expected forward, jvp, vjp or hvp");
    int code = parse_operation(argv[1], &options->operation);
    if (code == CLI_OK)
        code = parse_options(argc, argv, options);
    if (code == CLI_OK)
        code = check_required(options);
    if (code == CLI_OK)
        code = check_companions(options);
    return code;
}
