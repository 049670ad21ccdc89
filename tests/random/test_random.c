/*
 * Defends every combination of options: problems drawn at random, computed by
 * an engine and judged by the oracle. A failure is shrunk and printed as a
 * command line.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "commandline.h"
#include "draw.h"
#include "shrink.h"

/* Time for shrinking, all failures of a run together. */
#define SHRINK_SECONDS 240

struct arguments {
    uint64_t seed;
    int64_t draws;
    int64_t per_program; /* problems that share a program: building one is what costs */
    int64_t only;        /* the one draw to run; -1: all */
    double seconds;
    const char *engine; /* NULL: each in turn */
    const char *save;   /* where the arrays of small cases go; or NULL */
};

/* What a run on one engine has found so far. */
struct tally {
    int64_t passed, refused, failed;
    double worst; /* the largest error / allowed of those that passed */
    double shrink_seconds_left;
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* ---- arguments ---- */

static bool parse_integer(const char *text, uint64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 0);
    return errno == 0 && end != text && *end == 0 && *text != '-';
}

static bool parse_option(const char *name, const char *text, struct arguments *arguments)
{
    uint64_t number = 0;
    if (strcmp(name, "--engine") == 0)
        return (arguments->engine = text) != NULL;
    if (strcmp(name, "--save") == 0)
        return (arguments->save = text) != NULL;
    if (!parse_integer(text, &number))
        return false;
    if (strcmp(name, "--seed") == 0)
        arguments->seed = number;
    else if (strcmp(name, "--draws") == 0)
        arguments->draws = (int64_t)number;
    else if (strcmp(name, "--per-program") == 0)
        arguments->per_program = number > 0 ? (int64_t)number : 1;
    else if (strcmp(name, "--only") == 0)
        arguments->only = (int64_t)number;
    else if (strcmp(name, "--seconds") == 0)
        arguments->seconds = (double)number;
    else
        return false;
    return true;
}

static bool parse_arguments(int count, char **words, struct arguments *arguments)
{
    *arguments =
        (struct arguments){.seed = 1, .draws = 300, .per_program = 15, .only = -1, .seconds = INFINITY};
    for (int i = 1; i < count; i += 2)
        if (i + 1 == count || !parse_option(words[i], words[i + 1], arguments))
            return false;
    return true;
}

static void print_usage(void)
{
    fputs("usage: random_test [--engine E] [--seed S] [--draws N] [--per-program N]\n"
          "                   [--only N] [--seconds LIMIT] [--save DIR]\n"
          "--only N repeats draw N of the seed; --save writes the arrays of each failure's small case to "
          "DIR/N\n",
          stderr);
}

/* ---- failures ---- */

static void print_failure(const char *what, const struct recipe *recipe, const struct trial_report *report)
{
    printf("%s\n  %s: %s\n", what, clattn_status_name(report->status), report->message);
    recipe_print(stdout, recipe);
    fflush(stdout);
}

/* The directory of the small case's arrays: DIR/N, made; or a name that it would have. */
static void save_case(const struct arguments *arguments, int64_t n, const struct recipe *recipe)
{
    char directory[512];
    snprintf(directory, sizeof directory, "%s/%" PRId64, arguments->save ? arguments->save : "DIR", n);
    if (arguments->save &&
        ((mkdir(arguments->save, 0777) && errno != EEXIST) || (mkdir(directory, 0777) && errno != EEXIST) ||
         !commandline_save(recipe, directory)))
        printf("%s: cannot write to it\n", directory);
    commandline_print(stdout, recipe, directory);
    fflush(stdout);
}

static void report_failure(clattn_context *context, const struct arguments *arguments, int64_t n,
                           struct recipe *recipe, struct trial_report *report, struct tally *tally)
{
    char what[128];
    snprintf(what, sizeof what, "FAILED: draw %" PRId64 " of seed %" PRIu64, n, arguments->seed);
    print_failure(what, recipe, report);
    const double start = now();
    shrink(context, recipe, report, tally->shrink_seconds_left);
    tally->shrink_seconds_left -= now() - start;
    print_failure("shrunk to", recipe, report);
    save_case(arguments, n, recipe);
}

/* ---- draws ---- */

/* Draw n in a drawn program; false if it fails. */
static bool run_draw(clattn_context *context, const struct arguments *arguments, int64_t n,
                     const struct recipe *program, struct tally *tally)
{
    struct recipe recipe = *program;
    struct trial_report report;
    draw_arguments(arguments->seed, n, &recipe);
    recipe_run(context, &recipe, &report);
    const bool refused = report.status == CLATTN_UNSUPPORTED;
    tally->refused += refused;
    if (report.passed && report.worst <= 1 && report.worst > tally->worst)
        tally->worst = report.worst;
    tally->passed += report.passed;
    if (report.passed || refused)
        return true;
    tally->failed++;
    report_failure(context, arguments, n, &recipe, &report, tally);
    return false;
}

/* All draws of one program; after a failure its others would fail alike. */
static void run_program(clattn_context *context, const struct arguments *arguments, const char *engine,
                        int64_t n, struct tally *tally)
{
    const double start = now();
    const int64_t first = n * arguments->per_program;
    struct recipe program;
    draw_program(arguments->seed, n, engine, &program);
    for (int64_t draw = first; draw < first + arguments->per_program && draw < arguments->draws; draw++)
        if ((arguments->only < 0 || draw == arguments->only) &&
            !run_draw(context, arguments, draw, &program, tally))
            break;
    printf("%s, program %" PRId64 " (%s %s): %" PRId64
           " passed in all, worst %.2f of what is allowed, %.1f s\n",
           engine, n, clattn_operation_name(program.operation), clattn_dtype_name(program.problem.dtype),
           tally->passed, tally->worst, now() - start);
    fflush(stdout);
}

static bool run_engine(clattn_context *context, const struct arguments *arguments, const char *engine)
{
    struct tally tally = {.shrink_seconds_left = SHRINK_SECONDS};
    const double end = now() + arguments->seconds;
    const int64_t programs = (arguments->draws + arguments->per_program - 1) / arguments->per_program;
    for (int64_t n = 0; n < programs && now() < end; n++)
        if (arguments->only < 0 || n == arguments->only / arguments->per_program)
            run_program(context, arguments, engine, n, &tally);
    printf("%s, seed %" PRIu64 ": %" PRId64 " draws passed, %" PRId64 " refused, %" PRId64
           " failed, %d programs built\n",
           engine, arguments->seed, tally.passed, tally.refused, tally.failed,
           clattn_context_programs_built(context));
    return tally.failed == 0 && (tally.passed > 0 || tally.refused > 0);
}

int main(int count, char **words)
{
    struct arguments arguments;
    if (!parse_arguments(count, words, &arguments)) {
        print_usage();
        return 2;
    }
    clattn_context *context;
    if (clattn_context_open(getenv("CLATTN_TEST_DEVICE"), &context) != CLATTN_SUCCESS) {
        fprintf(stderr, "%s\n", clattn_message());
        return 1;
    }
    bool passed = true;
    for (int e = 0; clattn_engine_name(e); e++)
        if (!arguments.engine || strcmp(arguments.engine, clattn_engine_name(e)) == 0)
            passed = run_engine(context, &arguments, clattn_engine_name(e)) && passed;
    clattn_context_release(context);
    return passed ? 0 : 1;
}
