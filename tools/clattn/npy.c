/*
 * .npy files. Nothing in a file is trusted: the data is allocated only once
 * the file is known to hold it. Knows nothing of attention.
 */
#include "npy.h"

#include "files.h"
#include "npy_header.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "elements are copied as they lie in the file: a big-endian host needs them swapped here"
#endif

static const char MAGIC[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

/* Magic, version, and the header's length in 2 (version 1) or 4 bytes. */
enum {
    PREFIX_SIZE_V1 = 10,
    PREFIX_SIZE_V2 = 12,
    HEADER_LIMIT = 1 << 20,
    HEADER_ALIGNMENT = 64
};

static const size_t TYPE_SIZES[NPY_TYPE_COUNT] = {
    [NPY_F16] = 2, [NPY_F32] = 4, [NPY_F64] = 8, [NPY_BOOL] = 1, [NPY_U8] = 1, [NPY_I32] = 4, [NPY_I64] = 8,
};

const char *npy_type_name(npy_type type)
{
    static const char *const names[NPY_TYPE_COUNT] = {
        [NPY_F16] = "float16", [NPY_F32] = "float32", [NPY_F64] = "float64", [NPY_BOOL] = "bool",
        [NPY_U8] = "uint8",    [NPY_I32] = "int32",   [NPY_I64] = "int64",
    };
    return names[type];
}

size_t npy_type_size(npy_type type) { return TYPE_SIZES[type]; }

size_t npy_count(const npy_array *array)
{
    size_t count = 1;
    for (int axis = 0; axis < array->rank; axis++)
        count *= (size_t)array->shape[axis];
    return count;
}

bool npy_allocate(npy_array *array, npy_type type, int rank, const int64_t *shape)
{
    size_t count;
    *array = (npy_array){0};
    if (!npy_shape_count(rank, shape, TYPE_SIZES[type], &count))
        return false;
    array->type = type;
    array->rank = rank;
    if (rank > 0)
        memcpy(array->shape, shape, (size_t)rank * sizeof *shape);
    array->data = calloc(count > 0 ? count : 1, TYPE_SIZES[type]);
    return array->data != NULL;
}

void npy_release(npy_array *array)
{
    free(array->data);
    *array = (npy_array){0};
}

static bool set_error(npy_error *error, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "path: what is wrong"; a path that is too long is cut so that the reason stays. */
static bool set_error(npy_error *error, const char *path, const char *format, ...)
{
    char reason[NPY_ERROR_SIZE / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    snprintf(error->text, sizeof error->text, "%.*s: %s", NPY_ERROR_SIZE / 2 - 4, path, reason);
    return false;
}

/* ---- reading ---- */

typedef struct reader {
    const char *path;
    FILE *file;
    uint64_t left; /* bytes of the file that were not read yet */
    npy_error *error;
} reader;

static bool read_bytes(reader *in, void *bytes, size_t count, const char *what)
{
    if (in->left < count)
        return set_error(in->error, in->path, "truncated: expected %zu bytes of %s, found %" PRIu64, count,
                         what, in->left);
    errno = 0;
    if (fread(bytes, 1, count, in->file) != count)
        return set_error(in->error, in->path, "%s", errno ? strerror(errno) : "changed while it was read");
    in->left -= count;
    return true;
}

static bool read_header_length(reader *in, size_t *length)
{
    unsigned char prefix[PREFIX_SIZE_V2];
    if (!read_bytes(in, prefix, PREFIX_SIZE_V1, "prefix"))
        return false;
    if (memcmp(prefix, MAGIC, sizeof MAGIC) != 0)
        return set_error(in->error, in->path, "not a .npy file: expected it to start with \\x93NUMPY");
    int major = prefix[6], minor = prefix[7];
    if (major < 1 || major > 3 || minor != 0)
        return set_error(in->error, in->path, "format version %d.%d, expected 1.0, 2.0 or 3.0", major, minor);
    *length = prefix[8] | (size_t)prefix[9] << 8;
    if (major == 1)
        return true;
    if (!read_bytes(in, prefix + PREFIX_SIZE_V1, PREFIX_SIZE_V2 - PREFIX_SIZE_V1, "prefix"))
        return false;
    *length |= (size_t)prefix[10] << 16 | (size_t)prefix[11] << 24;
    return true;
}

static bool read_header(reader *in, npy_array *array)
{
    size_t length = 0;
    if (!read_header_length(in, &length))
        return false;
    if (length > HEADER_LIMIT)
        return set_error(in->error, in->path, "header of %zu bytes, expected at most %d", length,
                         HEADER_LIMIT);
    char *text = malloc(length > 0 ? length : 1);
    if (!text)
        return set_error(in->error, in->path, "out of memory");
    bool ok = read_bytes(in, text, length, "header");
    npy_error reason;
    if (ok && !npy_header_parse(text, length, array, &reason))
        ok = set_error(in->error, in->path, "%s", reason.text);
    free(text);
    return ok;
}

static bool read_data(reader *in, npy_array *array)
{
    npy_array header = *array;
    size_t count;
    if (!npy_shape_count(header.rank, header.shape, npy_type_size(header.type), &count))
        return set_error(in->error, in->path, "shape is larger than memory can be");
    uint64_t bytes = (uint64_t)count * npy_type_size(header.type);
    if (bytes != in->left)
        return set_error(in->error, in->path, "%s: expected %" PRIu64 " bytes of data, found %" PRIu64,
                         in->left < bytes ? "truncated" : "trailing bytes", bytes, in->left);
    if (!npy_allocate(array, header.type, header.rank, header.shape))
        return set_error(in->error, in->path, "out of memory");
    return read_bytes(in, array->data, (size_t)bytes, "data");
}

bool npy_load(const char *path, npy_array *array, npy_error *error)
{
    *array = (npy_array){0};
    const char *reason;
    uint64_t size;
    FILE *file = files_open(path, &size, &reason);
    if (!file)
        return set_error(error, path, "%s", reason);
    reader in = {path, file, size, error};
    bool ok = read_header(&in, array) && read_data(&in, array);
    fclose(file);
    if (!ok)
        npy_release(array);
    return ok;
}

/* ---- writing ---- */

static bool write_contents(FILE *file, const npy_array *array)
{
    char text[NPY_HEADER_TEXT_SIZE];
    int length = npy_header_format(array, text);
    int unpadded = PREFIX_SIZE_V1 + length + 1;
    int padding = (HEADER_ALIGNMENT - unpadded % HEADER_ALIGNMENT) % HEADER_ALIGNMENT;
    int field = length + padding + 1;
    const unsigned char version_and_length[4] = {1, 0, (unsigned char)(field & 0xff),
                                                 (unsigned char)(field >> 8)};
    fwrite(MAGIC, 1, sizeof MAGIC, file);
    fwrite(version_and_length, 1, sizeof version_and_length, file);
    fprintf(file, "%s%*s\n", text, padding, "");
    fwrite(array->data, npy_type_size(array->type), npy_count(array), file);
    return fflush(file) == 0 && !ferror(file);
}

bool npy_stage(const char *path, const npy_array *array, npy_staged *staged, npy_error *error)
{
    *staged = (npy_staged){path, NULL};
    struct stat facts;
    if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode)) /* which only commit would find out */
        return set_error(error, path, "cannot write: %s", strerror(EISDIR));
    /* The process id keeps two runs that write to one directory apart. */
    size_t size = strlen(path) + 40;
    staged->temporary = malloc(size);
    if (!staged->temporary)
        return set_error(error, path, "out of memory");
    snprintf(staged->temporary, size, "%s.%ld.partial", path, (long)getpid());
    FILE *file = fopen(staged->temporary, "wb");
    bool ok = file && write_contents(file, array);
    int reason = errno;
    if (file && fclose(file) != 0 && ok) {
        reason = errno;
        ok = false;
    }
    if (ok)
        return true;
    npy_discard(staged);
    return set_error(error, path, "cannot write: %s", strerror(reason));
}

bool npy_commit(npy_staged *staged, npy_error *error)
{
    if (rename(staged->temporary, staged->path) != 0) {
        set_error(error, staged->path, "cannot write: %s", strerror(errno));
        npy_discard(staged);
        return false;
    }
    free(staged->temporary);
    staged->temporary = NULL;
    return true;
}

void npy_discard(npy_staged *staged)
{
    if (!staged->temporary)
        return;
    unlink(staged->temporary);
    free(staged->temporary);
    staged->temporary = NULL;
}

bool npy_save(const char *path, const npy_array *array, npy_error *error)
{
    npy_staged staged;
    return npy_stage(path, array, &staged, error) && npy_commit(&staged, error);
}
