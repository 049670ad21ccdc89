/* Recipes as command lines and files. */
#include "commandline.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* An input that the command takes as a file; logit data among them. */
static bool is_file(const struct recipe *recipe, int tensor)
{
    return tensor < CLATTN_O && recipe->problem.present[tensor];
}

/* ---- the command line ---- */

/* " --kv-lengths DIR/kv_lengths.npy" */
static void print_file_option(FILE *file, const char *directory, const char *name)
{
    fprintf(file, " --");
    for (const char *letter = name; *letter; letter++)
        fputc(*letter == '_' ? '-' : *letter, file);
    fprintf(file, " %s/%s.npy", directory, name);
}

static void print_position(FILE *file, const clattn_problem *p)
{
    if (p->causal != CLATTN_CAUSAL_NONE)
        fprintf(file, " --causal %s", p->causal == CLATTN_CAUSAL_TOP_LEFT ? "top-left" : "bottom-right");
    if (p->window_left >= 0 || p->window_right >= 0)
        fprintf(file, " --window %" PRId64 ",%" PRId64, p->window_left, p->window_right);
}

static void print_values(FILE *file, const clattn_problem *p)
{
    fprintf(file, " --dtype %s --scale %.17g", clattn_dtype_name(p->dtype), p->scale);
    if (p->out_dtype != p->dtype)
        fprintf(file, " --out-dtype f32");
    if (p->softcap > 0)
        fprintf(file, " --softcap %.17g", p->softcap);
    if (p->present[CLATTN_BLOCK_MASK])
        fprintf(file, " --block %" PRId64 ",%" PRId64, p->block_rows, p->block_columns);
    if (p->dropout > 0)
        fprintf(file, " --dropout %.17g --seed %" PRIu64 " --offset %" PRIu64, p->dropout, p->dropout_seed,
                p->dropout_offset);
    if (p->engine)
        fprintf(file, " --engine %s", p->engine);
}

static void print_shortfalls(FILE *file, const struct recipe *recipe)
{
    const clattn_problem *p = &recipe->problem;
    if (recipe->layout == LAYOUT_MIXED || recipe->row_gap > 0)
        fprintf(file, "  (the command has no such strides)\n");
    if (p->present[CLATTN_BIAS] && p->bias_dtype != (p->dtype == CLATTN_F64 ? CLATTN_F64 : CLATTN_F32))
        fprintf(file, "  (the command keeps the bias in another type)\n");
    if (p->forward_given)
        fprintf(file, "  (the command computes o and lse itself)\n");
}

void commandline_print(FILE *file, const struct recipe *recipe, const char *directory)
{
    fprintf(file, "clattn run %s", clattn_operation_name(recipe->operation));
    for (int t = 0; t < CLATTN_O; t++)
        if (is_file(recipe, t))
            print_file_option(file, directory, clattn_tensor_name((clattn_tensor)t));
    if (recipe->problem.logit)
        fprintf(file, " --logit %s/logit.cl", directory);
    if (recipe->layout == LAYOUT_BSHD)
        fprintf(file, " --layout bshd");
    print_position(file, &recipe->problem);
    print_values(file, &recipe->problem);
    fprintf(file, "\n");
    print_shortfalls(file, recipe);
}

/* ---- files ---- */

enum kind {
    BOOLEANS,
    BYTES,
    INTEGERS,
    REALS
};

static enum kind kind_of(clattn_tensor tensor)
{
    switch (tensor) {
    case CLATTN_MASK:
        return BOOLEANS;
    case CLATTN_BLOCK_MASK:
        return BYTES;
    case CLATTN_KV_LENGTHS:
    case CLATTN_Q_SEGMENTS:
    case CLATTN_KV_SEGMENTS:
    case CLATTN_CU_SEQLENS_Q:
    case CLATTN_CU_SEQLENS_K:
        return INTEGERS;
    default:
        return REALS;
    }
}

/* An array's axes in the file, and how far apart neighbours along them are in logical order. */
struct axes {
    int rank;
    int64_t size[6], step[6];
};

static void swap(int64_t *a, int64_t *b)
{
    const int64_t kept = *a;
    *a = *b;
    *b = kept;
}

static bool has_layout(clattn_tensor tensor)
{
    return tensor <= CLATTN_V || (tensor >= CLATTN_TQ && tensor <= CLATTN_TV) || tensor == CLATTN_DO ||
           tensor == CLATTN_TDO;
}

static struct axes axes_of(const struct recipe *recipe, const struct trial *trial, clattn_tensor tensor)
{
    struct axes axes = {0};
    const bool tangent = clattn_tensor_name(tensor)[0] == 't';
    int64_t shape[5], step = 1;
    const int rank = clattn_problem_shape(&trial->problem, tensor, shape);
    axes.rank = rank + tangent;
    axes.size[0] = trial->problem.tangents;
    memcpy(axes.size + tangent, shape, (size_t)rank * sizeof *shape);
    for (int axis = axes.rank - 1; axis >= 0; axis--) {
        axes.step[axis] = step;
        step *= axes.size[axis];
    }
    if (recipe->layout == LAYOUT_BSHD && has_layout(tensor)) {
        swap(&axes.size[axes.rank - 3], &axes.size[axes.rank - 2]);
        swap(&axes.step[axes.rank - 3], &axes.step[axes.rank - 2]);
    }
    return axes;
}

/* Version 1.0 of the format: the header ends at a multiple of 64 bytes. */
static void write_header(FILE *file, const struct axes *axes, enum kind kind)
{
    static const char *const types[] = {"|b1", "|u1", "<i4", "<f8"};
    char text[256];
    int length =
        snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (", types[kind]);
    for (int axis = 0; axis < axes->rank; axis++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%" PRId64 ",", axes->size[axis]);
    length += snprintf(text + length, sizeof text - (size_t)length, "), }");
    const int padded = (10 + length + 1 + 63) / 64 * 64 - 10;
    fwrite("\x93NUMPY\x01\x00", 1, 8, file);
    fputc(padded & 255, file);
    fputc(padded >> 8, file);
    fprintf(file, "%s%*s\n", text, padded - length - 1, "");
}

static void write_value(FILE *file, enum kind kind, double value)
{
    const int32_t integer = kind == INTEGERS ? (int32_t)value : 0;
    if (kind == REALS)
        fwrite(&value, sizeof value, 1, file);
    else if (kind == INTEGERS)
        fwrite(&integer, sizeof integer, 1, file);
    else
        fputc((int)value, file);
}

/* The elements in the order of the file. */
static void write_values(FILE *file, const struct axes *axes, enum kind kind, const double *values)
{
    int64_t count = 1;
    for (int axis = 0; axis < axes->rank; axis++)
        count *= axes->size[axis];
    for (int64_t n = 0; n < count; n++) {
        int64_t at = 0, rest = n;
        for (int axis = axes->rank - 1; axis >= 0; axis--) {
            at += rest % axes->size[axis] * axes->step[axis];
            rest /= axes->size[axis];
        }
        write_value(file, kind, values[at]);
    }
}

static FILE *create(const char *directory, const char *name, const char *suffix)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s%s", directory, name, suffix);
    return fopen(path, "wb");
}

static bool save_tensor(const struct recipe *recipe, const struct trial *trial, clattn_tensor tensor,
                        const char *directory)
{
    FILE *file = create(directory, clattn_tensor_name(tensor), ".npy");
    if (!file)
        return false;
    const struct axes axes = axes_of(recipe, trial, tensor);
    write_header(file, &axes, kind_of(tensor));
    write_values(file, &axes, kind_of(tensor), trial->values[tensor]);
    return fclose(file) == 0;
}

static bool save_logit(const struct recipe *recipe, const char *directory)
{
    FILE *file = recipe->problem.logit ? create(directory, "logit", ".cl") : NULL;
    if (!file)
        return !recipe->problem.logit;
    fputs(recipe->problem.logit, file);
    return fclose(file) == 0;
}

bool commandline_save(const struct recipe *recipe, const char *directory)
{
    struct trial trial;
    recipe_make(recipe, &trial);
    bool saved = save_logit(recipe, directory);
    for (int t = 0; t < CLATTN_O && saved; t++)
        if (is_file(recipe, t))
            saved = save_tensor(recipe, &trial, (clattn_tensor)t, directory);
    trial_free(&trial);
    return saved;
}
