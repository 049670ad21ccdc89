/*
 * The options of `clattn bench`. One table drives parsing and --help.
 */
#include "bench_options.h"

#include "bench_time.h"
#include "cli.h"
#include "numbers.h"

#include <string.h>

static const char COMMAND[] = "clattn bench";

/* ---- lists ---- */

typedef bool parse_item(const char *text, int64_t *value);

/* "A,B,C" */
static bool parse_list(const char *text, parse_item *parse, bench_list *list)
{
    char item[64];
    list->count = 0;
    for (const char *rest = text; rest;) {
        const size_t length = strcspn(rest, ",");
        int64_t value;
        if (length >= sizeof item || list->count == BENCH_LIST_SIZE)
            return false;
        memcpy(item, rest, length);
        item[length] = '\0';
        if (!parse(item, &value))
            return false;
        list->values[list->count++] = value;
        rest = rest[length] ? rest + length + 1 : NULL;
    }
    return true;
}

/* The rows of an item given twice would be found twice. */
static bool parse_set(const char *text, parse_item *parse, bench_list *list)
{
    if (!parse_list(text, parse, list))
        return false;
    for (int i = 0; i < list->count; i++)
        for (int j = 0; j < i; j++)
            if (list->values[i] == list->values[j])
                return false;
    return true;
}

static bool parse_size(const char *text, int64_t *value)
{
    return parse_int64(text, value) && *value >= 1 && *value < INT64_C(1) << 24;
}

static bool parse_name(const char *text, const char *(*name)(int), int count, int64_t *value)
{
    for (*value = 0; *value < count; ++*value)
        if (strcmp(text, name((int)*value)) == 0)
            return true;
    return false;
}

static const char *operation_name(int i) { return clattn_operation_name((clattn_operation)i); }
static const char *dtype_name(int i) { return clattn_dtype_name((clattn_dtype)i); }
static const char *mask_name(int i) { return bench_mask_name((bench_mask)i); }

static bool parse_operation(const char *text, int64_t *value)
{
    return parse_name(text, operation_name, CLATTN_OPERATION_COUNT, value);
}

static bool parse_dtype(const char *text, int64_t *value)
{
    return parse_name(text, dtype_name, CLATTN_DTYPE_COUNT, value) && *value != CLATTN_F64;
}

static bool parse_mask(const char *text, int64_t *value)
{
    return parse_name(text, mask_name, BENCH_MASK_COUNT, value);
}

enum {
    METHOD_MATH,
    METHOD_CLATTN,
    METHOD_COUNT
};

static const char *method_name(int i) { return i == METHOD_MATH ? "math" : "clattn"; }

static bool parse_method(const char *text, int64_t *value)
{
    return parse_name(text, method_name, METHOD_COUNT, value);
}

/* ---- setters: NULL if the text was fine, else what was expected ---- */

#define SET_OR(parse, list, expected) (parse_set(text, parse, &options->list) ? NULL : (expected))
#define EXPECTED_SIZES "integers from 1 to 2^24 - 1 that differ, with commas between"

static const char *set_operations(bench_options *options, const char *text)
{
    return SET_OR(parse_operation, operations, "forward, jvp, vjp or hvp, or several with commas between");
}

static const char *set_dtypes(bench_options *options, const char *text)
{
    return SET_OR(parse_dtype, dtypes, "f32, f16 or bf16, or several with commas between");
}

static const char *set_heads(bench_options *options, const char *text)
{
    return SET_OR(parse_size, heads, EXPECTED_SIZES);
}

static const char *set_dims(bench_options *options, const char *text)
{
    return SET_OR(parse_size, dims, EXPECTED_SIZES);
}

static const char *set_lengths(bench_options *options, const char *text)
{
    return SET_OR(parse_size, lengths, EXPECTED_SIZES);
}

static const char *set_masks(bench_options *options, const char *text)
{
    return SET_OR(parse_mask, masks, "none, boolean or additive, or several with commas between");
}

static const char *set_batch(bench_options *options, const char *text)
{
    return parse_size(text, &options->batch) ? NULL : "an integer from 1 to 2^24 - 1";
}

static const char *set_tangents(bench_options *options, const char *text)
{
    const bool ok = parse_size(text, &options->tangents) && options->tangents <= 64;
    return ok ? NULL : "an integer from 1 to 64";
}

static const char *set_shape(bench_options *options, const char *text)
{
    bench_list sizes;
    if (!parse_list(text, parse_size, &sizes) || sizes.count != 4)
        return "B,H,N,D, four integers from 1 to 2^24 - 1";
    options->batch = sizes.values[0];
    options->heads = (bench_list){1, {sizes.values[1]}};
    options->lengths = (bench_list){1, {sizes.values[2]}};
    options->dims = (bench_list){1, {sizes.values[3]}};
    return NULL;
}

static const char *set_mask_shape(bench_options *options, const char *text)
{
    options->shares_mask = strcmp(text, "shared") == 0;
    return options->shares_mask || strcmp(text, "full") == 0 ? NULL : "full or shared";
}

static const char *set_causal(bench_options *options, const char *text)
{
    static const char *const names[] = {"no", "yes", "both"};
    static const bench_causal values[] = {BENCH_CAUSAL_NO, BENCH_CAUSAL_YES, BENCH_CAUSAL_BOTH};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(text, names[i]) == 0) {
            options->causal = values[i];
            return NULL;
        }
    return "no, yes or both";
}

static const char *set_methods(bench_options *options, const char *text)
{
    bench_list methods;
    if (!parse_set(text, parse_method, &methods))
        return "math, clattn or both with a comma between";
    options->math = options->clattn = false;
    for (int i = 0; i < methods.count; i++)
        *(methods.values[i] == METHOD_MATH ? &options->math : &options->clattn) = true;
    return NULL;
}

static const char *set_repeats(bench_options *options, const char *text)
{
    const bool ok = parse_int64(text, &options->repeats) && options->repeats >= BENCH_LEAST_REPEATS &&
                    options->repeats <= BENCH_MOST_REPEATS;
    return ok ? NULL : "an integer from 3 to 1000";
}

static const char *set_back_to_back(bench_options *options, const char *text)
{
    (void)text;
    options->back_to_back = true;
    return NULL;
}

static const char *set_judged(bench_options *options, const char *text)
{
    const bool ok = parse_int64(text, &options->judged_heads) && options->judged_heads >= 1 &&
                    options->judged_heads <= 64;
    return ok ? NULL : "an integer from 1 to 64";
}

static const char *set_device(bench_options *options, const char *text)
{
    options->device = text;
    return NULL;
}

static const char *set_engine(bench_options *options, const char *text)
{
    for (int i = 0; i < clattn_engine_count(); i++)
        if (strcmp(text, clattn_engine_name(i)) == 0) {
            options->engine = text;
            return NULL;
        }
    return "an engine that clattn info names";
}

static const char *set_format(bench_options *options, bench_format format)
{
    if (options->format != BENCH_TEXT && options->format != format)
        return "one of --json, --csv and --markdown";
    options->format = format;
    return NULL;
}

static const char *set_json(bench_options *options, const char *text)
{
    (void)text;
    return set_format(options, BENCH_JSON);
}

static const char *set_csv(bench_options *options, const char *text)
{
    (void)text;
    return set_format(options, BENCH_CSV);
}

static const char *set_markdown(bench_options *options, const char *text)
{
    (void)text;
    return set_format(options, BENCH_MARKDOWN);
}

/* ---- the table ---- */

typedef struct bench_option {
    const char *name;
    const char *argument; /* NULL: a flag */
    const char *(*set)(bench_options *options, const char *text);
    const char *help;
} bench_option;

static const bench_option OPTIONS[] = {
    {"--op", "LIST", set_operations,
     "forward, jvp (default), vjp, hvp; vjp and hvp compute their own forward pass"},
    {"--dtype", "LIST", set_dtypes, "f32, f16, bf16 (default: all three)"},
    {"--batch", "B", set_batch, "default 2"},
    {"--heads", "LIST", set_heads, "default 12"},
    {"--dims", "LIST", set_dims, "head dims, default 64"},
    {"--lengths", "LIST", set_lengths, "queries and keys, default 32,64,128,256,512,1024,2048"},
    {"--shape", "B,H,N,D", set_shape, "the four of them, one value each"},
    {"--tangents", "T", set_tangents, "of jvp and hvp at once, default 1"},
    {"--masks", "LIST", set_masks,
     "none, boolean, additive (default: all three); a tenth of the pairs attends, the others are\n"
     "masked out, by -100 where the mask is added"},
    {"--mask-shape", "SHAPE", set_mask_shape, "full: [B,H,N,N] (default), or shared: [1,1,N,N]"},
    {"--causal", "WHICH", set_causal,
     "no, yes or both; default: every mask without, and causal without a mask"},
    {"--methods", "LIST", set_methods, "math, clattn (default: both)"},
    {"--engine", "E", set_engine, "clattn's engine; clattn info shows what is chosen without it"},
    {"--device", "D", set_device, "index, or part of a name that fits one device"},
    {"--repeat", "N", set_repeats,
     "timed runs a row, 3 to 1000, default 10; a row takes no more than about 3 s, but 3 runs"},
    {"--back-to-back", NULL, set_back_to_back,
     "no wait between the runs that are timed: what a busy device sustains"},
    {"--judge", "K", set_judged, "heads whose results are compared with the float64 reference, default 2"},
    {"--json", NULL, set_json, "one JSON object, the input of bench table, plot and compare"},
    {"--csv", NULL, set_csv, "a line a row"},
    {"--markdown", NULL, set_markdown, "the tables in Markdown"},
};
enum {
    OPTION_COUNT = sizeof OPTIONS / sizeof OPTIONS[0]
};

void bench_options_print_help(void)
{
    puts("usage: clattn bench [options]\n"
         "       clattn bench table FILE.json [--csv|--markdown]\n"
         "       clattn bench plot FILE.json [--out DIR]\n"
         "       clattn bench compare OLD.json NEW.json [--threshold X] [--methods OLD,NEW]\n"
         "\n"
         "Times attention by two methods on one device, and judges the results of both:\n"
         "  math      the quadratic method: every N x N matrix in memory, products by CLBlast in f32\n"
         "  clattn    this library\n"
         "\n"
         "A row's time is the median by the device's events; its memory all buffers at the peak, inputs\n"
         "and results among them; TFLOP/s count the matrix products that the operation needs (2 of the\n"
         "forward pass, 6, 5, 15), half of them for causal. The error is the largest of results, tangents\n"
         "and gradients; the check holds each to the bars of the test suite.\n"
         "\n"
         "Rows, one for each combination:");
    for (int i = 0; i < OPTION_COUNT; i++)
        cli_print_option(OPTIONS[i].name, OPTIONS[i].argument, OPTIONS[i].help, "");
    puts("\n"
         "table FILE         the tables of a file that --json has written\n"
         "plot FILE          pictures of it, time and memory by length, "
         "DIR/OP_DTYPE_{time,memory}.{png,svg};\n"
         "                   needs gnuplot\n"
         "compare OLD NEW    ratios of times, new over old, row by row; exit 1 when one is beyond X\n"
         "                   (default 1.1) by more than the spread of both, or a check fails that passed.\n"
         "                   --methods A,B compares OLD's rows of method A with NEW's of method B\n"
         "\n"
         "Exit codes: 0 success, 1 failed, 2 wrong usage.");
}

/* ---- parsing ---- */

static const bench_option *find_option(const char *name)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        if (strcmp(OPTIONS[i].name, name) == 0)
            return &OPTIONS[i];
    return NULL;
}

static bench_options defaults(void)
{
    return (bench_options){
        .operations = {1, {CLATTN_JVP}},
        .dtypes = {3, {CLATTN_F32, CLATTN_F16, CLATTN_BF16}},
        .heads = {1, {12}},
        .dims = {1, {64}},
        .lengths = {7, {32, 64, 128, 256, 512, 1024, 2048}},
        .masks = {3, {BENCH_MASK_ADDITIVE, BENCH_MASK_BOOLEAN, BENCH_MASK_NONE}},
        .batch = 2,
        .tangents = 1,
        .math = true,
        .clattn = true,
        .repeats = 10,
        .judged_heads = 2,
    };
}

int bench_options_parse(int argc, char **argv, bench_options *options)
{
    bool seen[OPTION_COUNT] = {false};
    *options = defaults();
    for (int i = 1; i < argc; i++) {
        const bench_option *option = find_option(argv[i]);
        if (!option)
            return cli_usage(COMMAND, "unknown option '%s'", argv[i]);
        if (seen[option - OPTIONS])
            return cli_usage(COMMAND, "%s: given twice", option->name);
        seen[option - OPTIONS] = true;
        const char *text = "";
        if (option->argument) {
            if (i + 1 == argc || strncmp(argv[i + 1], "--", 2) == 0)
                return cli_usage(COMMAND, "%s: expected %s after it", option->name, option->argument);
            text = argv[++i];
        }
        const char *expected = option->set(options, text);
        if (expected)
            return cli_usage(COMMAND, "%s: '%s', expected %s", option->name, text, expected);
    }
    return CLI_OK;
}

/* ---- the rows ---- */

typedef struct combination {
    bench_mask mask;
    bool causal;
} combination;

/* Masks with and without causal, as --masks and --causal say; returns how many. */
static int combine(const bench_options *options, combination found[2 * BENCH_MASK_COUNT])
{
    int count = 0;
    for (int causal = 0; causal < 2; causal++)
        for (int i = 0; i < options->masks.count; i++) {
            const bench_mask mask = (bench_mask)options->masks.values[i];
            const bool as_the_seeds = !causal || mask == BENCH_MASK_NONE;
            const bool wanted = options->causal == BENCH_CAUSAL_BOTH ||
                                (options->causal == BENCH_CAUSAL_AS_THE_SEEDS
                                     ? as_the_seeds
                                     : causal == (options->causal == BENCH_CAUSAL_YES));
            if (wanted)
                found[count++] = (combination){mask, causal};
        }
    return count;
}

int bench_options_count(const bench_options *options)
{
    combination unused[2 * BENCH_MASK_COUNT];
    return options->operations.count * options->dtypes.count * options->heads.count * options->dims.count *
           options->lengths.count * combine(options, unused);
}

/* The value of a list that is the fastest digit of *index, which loses it. */
static int64_t take(const bench_list *list, int *index)
{
    const int64_t value = list->values[*index % list->count];
    *index /= list->count;
    return value;
}

bench_spec bench_options_spec(const bench_options *options, int index)
{
    combination combinations[2 * BENCH_MASK_COUNT];
    const int count = combine(options, combinations);
    const combination chosen = combinations[index % count];
    index /= count;
    bench_spec spec = {.batch = options->batch,
                       .tangents = options->tangents,
                       .mask = chosen.mask,
                       .shares_mask = options->shares_mask,
                       .causal = chosen.causal};
    spec.seq_len = take(&options->lengths, &index);
    spec.head_dim = take(&options->dims, &index);
    spec.heads = take(&options->heads, &index);
    spec.dtype = (clattn_dtype)take(&options->dtypes, &index);
    spec.operation = (clattn_operation)take(&options->operations, &index);
    return spec;
}
