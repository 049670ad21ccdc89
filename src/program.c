/* The program store: sources from the embedded kernels, one build for each spec. */
#include "program.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "ptx.h"
#include "sources.h"
#include "status.h"

struct clattn_program_entry {
    struct clattn_program_spec spec;
    char *logit; /* the spec's, owned */
    cl_program program;
    char note[96]; /* what its build said to its speed */
    struct clattn_program_entry *next;
};

void clattn_spec_add_source(struct clattn_program_spec *spec, const char *name)
{
    spec->sources[spec->source_count++] = name;
}

void clattn_spec_define(struct clattn_program_spec *spec, const char *name, long value)
{
    const size_t used = strlen(spec->options);
    snprintf(spec->options + used, sizeof spec->options - used, " -D %s=%ld", name, value);
}

void clattn_program_store_init(struct clattn_program_store *store)
{
    pthread_mutex_init(&store->lock, NULL);
    store->first = NULL;
    store->built = 0;
}

void clattn_program_store_clear(struct clattn_program_store *store)
{
    while (store->first) {
        struct clattn_program_entry *entry = store->first;
        store->first = entry->next;
        clReleaseProgram(entry->program);
        free(entry->logit);
        free(entry);
    }
    pthread_mutex_destroy(&store->lock);
}

int clattn_program_store_built(const struct clattn_program_store *store)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&store->lock;
    pthread_mutex_lock(lock);
    const int built = store->built;
    pthread_mutex_unlock(lock);
    return built;
}

static bool same_spec(const struct clattn_program_spec *a, const struct clattn_program_spec *b)
{
    if (a->source_count != b->source_count || a->is_ptx_for_sm_90a != b->is_ptx_for_sm_90a ||
        strcmp(a->options, b->options) != 0)
        return false;
    for (int i = 0; i < a->source_count; i++)
        if (strcmp(a->sources[i], b->sources[i]) != 0)
            return false;
    return a->logit && b->logit ? strcmp(a->logit, b->logit) == 0 : a->logit == b->logit;
}

static const char *find_source(const struct clattn_program_spec *spec, const char *name)
{
    if (strcmp(name, CLATTN_LOGIT_SOURCE) == 0)
        return spec->logit;
    for (size_t i = 0; i < clattn_sources_count; i++)
        if (strcmp(clattn_sources[i].name, name) == 0)
            return clattn_sources[i].text;
    return NULL;
}

/* One program source out of the spec's files, each behind a #line with its name, and `end` behind the last. */
static clattn_status create_program(clattn_context *context, const struct clattn_program_spec *spec,
                                    const char *end, cl_program *program)
{
    const char *texts[2 * CLATTN_MAX_SOURCES + 1];
    char lines[CLATTN_MAX_SOURCES][96];
    for (int i = 0; i < spec->source_count; i++) {
        const char *text = find_source(spec, spec->sources[i]);
        if (!text)
            return clattn_fail(CLATTN_BUILD_ERROR, "%s: not among the embedded kernels", spec->sources[i]);
        snprintf(lines[i], sizeof lines[i], "\n#line 1 \"%s\"\n", spec->sources[i]);
        texts[2 * i] = lines[i];
        texts[2 * i + 1] = text;
    }
    texts[2 * spec->source_count] = end;
    cl_int error;
    *program =
        clCreateProgramWithSource(context->cl, 2 * (cl_uint)spec->source_count + 1, texts, NULL, &error);
    return clattn_from_cl(error, "clCreateProgramWithSource");
}

static int count_lines(const char *text)
{
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

/* Which of the spec's sources holds line `line` of the program as it was handed over, and its line there; what
 * follows the last counts as its lines, as it does under #line. */
static const char *locate_line(const struct clattn_program_spec *spec, int line, int *line_there)
{
    for (int i = 0; i < spec->source_count; i++) {
        const int lines = 2 + count_lines(find_source(spec, spec->sources[i])); /* 2: "\n#line ...\n" */
        if (line <= lines || i == spec->source_count - 1) {
            *line_there = line - 2;
            return spec->sources[i];
        }
        line -= lines;
    }
    return NULL;
}

/* NVIDIA's compiler takes no notice of #line: its "<kernel>:310:" becomes "logit:4:". */
static void name_lines(const struct clattn_program_spec *spec, const char *log, char *named, size_t size)
{
    static const char mark[] = "<kernel>:";
    size_t used = 0;
    while (*log && used + 1 < size) {
        char *rest;
        int there;
        const char *source = NULL;
        if (strncmp(log, mark, sizeof mark - 1) == 0)
            source = locate_line(spec, (int)strtol(log + sizeof mark - 1, &rest, 10), &there);
        if (source) {
            const int length = snprintf(named + used, size - used, "%s:%d", source, there);
            used += (size_t)length < size - used ? (size_t)length : size - used - 1;
            log = rest;
        } else {
            named[used++] = *log++;
        }
    }
    named[used] = 0;
}

/* What the compiler has said; to be freed. NULL if there is no memory, empty if the driver does not tell. */
static char *read_whole_log(clattn_context *context, cl_program program)
{
    const cl_device_id device = context->device.id;
    size_t length = 0;
    if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &length) != CL_SUCCESS)
        length = 0;
    char *log = calloc(1, length + 1);
    if (log && clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, length, log, NULL) != CL_SUCCESS)
        log[0] = 0;
    return log;
}

/* The same with lines named, as far as there is room for it. */
static void read_log(clattn_context *context, const struct clattn_program_spec *spec, cl_program program,
                     char log[CLATTN_LOG_SIZE])
{
    char *whole = read_whole_log(context, program);
    log[0] = 0;
    if (whole)
        name_lines(spec, whole, log, CLATTN_LOG_SIZE);
    free(whole);
}

static bool has(const char *line, size_t length, const char *word)
{
    const char *found = strstr(line, word);
    return found && found + strlen(word) <= line + length;
}

/* The log's first line that has both words; NULL if none has. */
static const char *find_line(const char *log, const char *word, const char *other, int *length)
{
    for (const char *line = log; *line; line += *length + (line[*length] == '\n')) {
        *length = (int)strcspn(line, "\n");
        if (*length > 0 && has(line, (size_t)*length, word) && has(line, (size_t)*length, other))
            return line;
    }
    return NULL;
}

/* The line that says most: the first error in the source that is to be blamed, or anywhere, or what there is. */
static const char *first_error(const char *log, const char *source, int *length)
{
    const char *line = find_line(log, "error:", source, length);
    if (!line)
        line = find_line(log, "error", "", length);
    if (!line)
        line = find_line(log, "", "", length);
    *length = line ? *length : 0;
    return line ? line : "";
}

/* The caller's function as it must be, behind its text: one of another kind conflicts with it, and a text that stops
 * too soon has it swallowed, both at a line of that text. */
static const char logit_prototype[] =
    "\nvoid clattn_logit(real x, int b, int h, int i, int j, __global const float *data, real *y, real *dy,"
    " real *ddy);\n";

/* Whether the caller's logit function is to blame: compiled alone, it cannot fail over what follows it. */
static bool is_logit_to_blame(clattn_context *context, const struct clattn_program_spec *spec, char *log)
{
    struct clattn_program_spec alone = *spec;
    alone.source_count = 0;
    while (strcmp(alone.sources[alone.source_count++], CLATTN_LOGIT_SOURCE) != 0)
        ;
    cl_program program;
    if (create_program(context, &alone, logit_prototype, &program) != CLATTN_SUCCESS)
        return false;
    const bool fails =
        clBuildProgram(program, 1, &context->device.id, alone.options, NULL, NULL) != CL_SUCCESS;
    if (fails)
        read_log(context, &alone, program, log);
    clReleaseProgram(program);
    return fails;
}

static clattn_status build_failure(clattn_context *context, const struct clattn_program_spec *spec,
                                   cl_program program, cl_int error)
{
    char *log = clattn_build_log_to_fill();
    int length;
    read_log(context, spec, program, log);
    if (spec->logit && !strstr(spec->logit, "clattn_logit"))
        return clattn_fail(CLATTN_BUILD_ERROR, "logit: does not define clattn_logit");
    if (spec->logit && is_logit_to_blame(context, spec, log)) {
        const char *line = first_error(log, CLATTN_LOGIT_SOURCE ":", &length);
        return clattn_fail(CLATTN_BUILD_ERROR, "logit: does not compile on %s: %.*s", context->device.name,
                           length, line);
    }
    const char *line = first_error(log, "", &length);
    return clattn_fail(CLATTN_BUILD_ERROR, "clBuildProgram: error %d on %s: %.*s", (int)error,
                       context->device.name, length, line);
}

static clattn_status build(clattn_context *context, const struct clattn_program_spec *spec,
                           cl_program *program)
{
    CLATTN_TRY(create_program(context, spec, "", program));
    const cl_int error = clBuildProgram(*program, 1, &context->device.id, spec->options, NULL, NULL);
    if (error == CL_SUCCESS)
        return CLATTN_SUCCESS;
    const clattn_status status = error == CL_OUT_OF_HOST_MEMORY
                                     ? clattn_from_cl(error, "clBuildProgram")
                                     : build_failure(context, spec, *program, error);
    clReleaseProgram(*program);
    return status;
}

/* ---- programs that are changed between the driver's two compilers ---- */

#define MOST_DEVICES 64

/* The binary of the context's device, as text; to be freed. NULL if there is none. */
static char *read_binary(clattn_context *context, cl_program program)
{
    cl_device_id devices[MOST_DEVICES];
    size_t sizes[MOST_DEVICES], bytes = 0;
    if (clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof devices, devices, &bytes) != CL_SUCCESS ||
        clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, NULL) != CL_SUCCESS)
        return NULL;
    /* the driver leaves out those whose place is NULL */
    unsigned char *places[MOST_DEVICES] = {NULL};
    char *text = NULL;
    for (size_t i = 0; i < bytes / sizeof *devices; i++)
        if (devices[i] == context->device.id && !text) {
            text = calloc(1, sizes[i] + 1);
            places[i] = (unsigned char *)text;
        }
    if (text && clGetProgramInfo(program, CL_PROGRAM_BINARIES, bytes / sizeof *devices * sizeof *places,
                                 places, NULL) != CL_SUCCESS) {
        free(text);
        return NULL;
    }
    return text;
}

/* In place of *program its PTX for sm_90a, built. */
static clattn_status rebuild_for_sm_90a(clattn_context *context, const struct clattn_program_spec *spec,
                                        cl_program *program, char *note, size_t size)
{
    char *binary = read_binary(context, *program);
    char *patched = binary ? clattn_ptx_for_sm_90a(binary) : NULL;
    free(binary);
    if (!patched)
        return clattn_fail(CLATTN_BUILD_ERROR, "the driver's binary is no PTX for sm_90");
    const size_t length = strlen(patched);
    const unsigned char *bytes = (const unsigned char *)patched;
    cl_int error, unused;
    cl_program rebuilt =
        clCreateProgramWithBinary(context->cl, 1, &context->device.id, &length, &bytes, &unused, &error);
    free(patched);
    CLATTN_TRY(clattn_from_cl(error, "clCreateProgramWithBinary"));
    error = clBuildProgram(rebuilt, 1, &context->device.id, "-cl-nv-verbose", NULL, NULL);
    clReleaseProgram(*program);
    *program = rebuilt;
    if (error != CL_SUCCESS)
        return build_failure(context, spec, rebuilt, error);
    char *log = read_whole_log(context, rebuilt);
    const bool sound = !log || clattn_ptx_is_sound(log, note, size);
    free(log);
    return sound ? CLATTN_SUCCESS : clattn_fail(CLATTN_BUILD_ERROR, "%s: %s", context->device.name, note);
}

/* An entry with its own copy of what the spec borrows from the caller, and no program yet. */
static struct clattn_program_entry *new_entry(const struct clattn_program_spec *spec)
{
    struct clattn_program_entry *entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    entry->spec = *spec;
    if (!spec->logit)
        return entry;
    const size_t size = strlen(spec->logit) + 1;
    entry->logit = malloc(size);
    if (!entry->logit) {
        free(entry);
        return NULL;
    }
    memcpy(entry->logit, spec->logit, size);
    entry->spec.logit = entry->logit;
    return entry;
}

static clattn_status add(clattn_context *context, const struct clattn_program_spec *spec,
                         struct clattn_program_entry **added)
{
    struct clattn_program_store *store = &context->programs;
    struct clattn_program_entry *entry = new_entry(spec);
    if (!entry)
        return clattn_fail(CLATTN_OUT_OF_MEMORY, "host memory for a program");
    clattn_status status = build(context, spec, &entry->program);
    if (status == CLATTN_SUCCESS && spec->is_ptx_for_sm_90a) {
        status = rebuild_for_sm_90a(context, spec, &entry->program, entry->note, sizeof entry->note);
        if (status != CLATTN_SUCCESS)
            clReleaseProgram(entry->program);
    }
    if (status != CLATTN_SUCCESS) {
        free(entry->logit);
        free(entry);
        return status;
    }
    entry->next = store->first;
    store->first = entry;
    store->built++;
    *added = entry;
    return CLATTN_SUCCESS;
}

clattn_status clattn_program_get(clattn_context *context, const struct clattn_program_spec *spec,
                                 cl_program *program, const char **note)
{
    struct clattn_program_store *store = &context->programs;
    pthread_mutex_lock(&store->lock);
    struct clattn_program_entry *entry = store->first;
    while (entry && !same_spec(&entry->spec, spec))
        entry = entry->next;
    clattn_status status = CLATTN_SUCCESS;
    if (!entry)
        status = add(context, spec, &entry);
    if (status == CLATTN_SUCCESS) {
        *program = entry->program;
        *note = entry->note;
    }
    pthread_mutex_unlock(&store->lock);
    return status;
}
