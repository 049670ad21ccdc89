/*
 * The command's .npy files: what is written is read back, and every malformed
 * file is refused with its name and a reason.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The command is no library: its files are compiled into the test. */
#include "../../tools/clattn/files.c"
#include "../../tools/clattn/npy.c"
#include "../../tools/clattn/npy_header.c"

static char directory[64];
static char path[128];

static int make_directory(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/clattn-test-npy-XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/array.npy", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(directory);
}

/* ---- files made by hand ---- */

typedef struct file_spec {
    int version;
    const char *header; /* the text, padded to nothing */
    size_t data_bytes;
} file_spec;

static void write_bytes(const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

/* Data bytes are 0, 1, 2, ... */
static void write_file(const file_spec *spec)
{
    unsigned char bytes[1024];
    size_t header_bytes = strlen(spec->header);
    size_t prefix_bytes = spec->version == 1 ? 10 : 12;
    memcpy(bytes, "\x93NUMPY", 6);
    memset(bytes + 6, 0, 6);
    bytes[6] = (unsigned char)spec->version;
    bytes[8] = (unsigned char)(header_bytes & 0xff);
    bytes[9] = (unsigned char)(header_bytes >> 8);
    memcpy(bytes + prefix_bytes, spec->header, header_bytes);
    for (size_t i = 0; i < spec->data_bytes; i++)
        bytes[prefix_bytes + header_bytes + i] = (unsigned char)i;
    write_bytes(bytes, prefix_bytes + header_bytes + spec->data_bytes);
}

/* Reads the file, which must fail with its name and `reason` in the message, and leave no array. */
static void assert_refused(const char *reason)
{
    npy_array array;
    npy_error error;
    assert_false(npy_load(path, &array, &error));
    assert_null(array.data);
    assert_int_equal(array.rank, 0);
    assert_non_null(strstr(error.text, path));
    if (!strstr(error.text, reason))
        fail_msg("'%s' does not say '%s'", error.text, reason);
}

/* ---- round trips ---- */

static void assert_round_trip(npy_type type, int rank, const int64_t *shape)
{
    npy_array written, read;
    npy_error error;
    assert_true(npy_allocate(&written, type, rank, shape));
    size_t bytes = npy_count(&written) * npy_type_size(type);
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)written.data)[i] = (unsigned char)(i * 37 + 1);
    assert_true(npy_save(path, &written, &error));
    assert_true(npy_load(path, &read, &error));
    assert_int_equal(read.type, type);
    assert_int_equal(read.rank, rank);
    for (int axis = 0; axis < rank; axis++)
        assert_int_equal(read.shape[axis], shape[axis]);
    assert_memory_equal(read.data, written.data, bytes);
    npy_release(&written);
    npy_release(&read);
}

static void test_every_type_and_rank_survives_a_round_trip(void **state)
{
    (void)state;
    static const int64_t shape[NPY_MAX_RANK] = {2, 3, 1, 4, 2, 1, 1, 2};
    for (int type = 0; type < NPY_TYPE_COUNT; type++) {
        for (int rank = 0; rank <= NPY_MAX_RANK; rank++)
            assert_round_trip((npy_type)type, rank, shape);
    }
}

static void test_arrays_without_elements_survive_a_round_trip(void **state)
{
    (void)state;
    assert_round_trip(NPY_F32, 1, (const int64_t[]){0});
    assert_round_trip(NPY_F64, 4, (const int64_t[]){2, 0, 5, 0});
}

static void test_the_longest_header_survives_a_round_trip(void **state)
{
    (void)state;
    static const int64_t shape[NPY_MAX_RANK] = {0, INT64_C(1) << 60, 1, 1, 1, 1, 1, 1};
    assert_round_trip(NPY_BOOL, NPY_MAX_RANK, shape);
    char text[NPY_HEADER_TEXT_SIZE];
    npy_array widest = {.type = NPY_BOOL, .rank = NPY_MAX_RANK};
    for (int axis = 0; axis < NPY_MAX_RANK; axis++)
        widest.shape[axis] = INT64_MAX;
    assert_true(npy_header_format(&widest, text) < NPY_HEADER_TEXT_SIZE);
}

static void test_written_data_starts_at_a_multiple_of_64(void **state)
{
    (void)state;
    npy_array array;
    npy_error error;
    struct stat facts;
    for (int64_t size = 1; size <= 10000000; size *= 10) {
        const int64_t shape[] = {0, size};
        assert_true(npy_allocate(&array, NPY_F32, 2, shape));
        assert_true(npy_save(path, &array, &error));
        npy_release(&array);
        assert_int_equal(stat(path, &facts), 0);
        assert_int_equal(facts.st_size % 64, 0);
    }
}

static void assert_reads_2_by_3(int version, const char *header)
{
    npy_array array;
    npy_error error;
    write_file(&(file_spec){version, header, 6});
    if (!npy_load(path, &array, &error))
        fail_msg("%s", error.text);
    assert_int_equal(array.type, NPY_U8);
    assert_int_equal(array.rank, 2);
    assert_int_equal(array.shape[0], 2);
    assert_int_equal(array.shape[1], 3);
    assert_memory_equal(array.data, "\0\1\2\3\4\5", 6);
    npy_release(&array);
}

static void test_all_versions_spacings_orders_and_quotes_are_read(void **state)
{
    (void)state;
    for (int version = 1; version <= 3; version++)
        assert_reads_2_by_3(version, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }      \n");
    assert_reads_2_by_3(1, "{'shape':(2,3),'fortran_order':False,'descr':'|u1'}");
    assert_reads_2_by_3(1,
                        "  { \"descr\" : \"|u1\" , 'fortran_order' : False , 'shape' : ( 2 , 3 , ) } \t\n");
}

/* ---- malformed files ---- */

static void test_malformed_headers_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header, *reason;
    } cases[] = {
        {"", "expected '{'"},
        {"\n", "expected '{'"},
        {"{", "key"},
        {"{}", "expected the keys"},
        {"{'descr': '<f4', 'fortran_order': False}", "expected the keys"},
        {"{'descr': '<f4', 'shape': (1,)}", "expected the keys"},
        {"{'fortran_order': False, 'shape': (1,)}", "expected the keys"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", "malformed"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x", "after the closing"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", "unknown key 'more'"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "repeated key 'descr'"},
        {"{'descr' '<f4', 'fortran_order': False, 'shape': (1,)}", "expected ':'"},
        {"{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}", "expected ','"},
        {"{'descr: <f4, fortran_order: False, shape: (1,)}", "key"},
        {"{descr: '<f4', 'fortran_order': False, 'shape': (1,)}", "key"},
        {"{'descr': <f4, 'fortran_order': False, 'shape': (1,)}", "one type as a string"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "one type as a string"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", "big endian"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", "'<c8'"},
        {"{'descr': '', 'fortran_order': False, 'shape': (1,)}", "expected one of"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "'|O'"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (1,)}", "C order"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "False or True"},
        {"{'descr': '<f4', 'fortran_order': Falsehood, 'shape': (1,)}", "False or True"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 1}", "expected '('"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': [1]}", "expected '('"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1)}", "tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "tuple of sizes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,)}", "in 'shape'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}", "in 'shape'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", "tuple of sizes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,,2)}", "tuple of sizes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (None,)}", "tuple of sizes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", "more than 8 axes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}", "64 bits"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999999,)}", "64 bits"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}", "memory"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", "memory"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296)}", "memory"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}", "truncated"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "truncated"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': ()}", NULL}, /* fine: 4 bytes */
        {"{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", "trailing bytes"},
        {"{'descr': '|b1', 'fortran_order': False, 'shape': (0,)}", "trailing bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file(&(file_spec){1, cases[i].header, 4});
        if (cases[i].reason) {
            assert_refused(cases[i].reason);
            continue;
        }
        npy_array array;
        npy_error error;
        assert_true(npy_load(path, &array, &error));
        npy_release(&array);
    }
}

static void test_quoted_text_stays_on_one_line(void **state)
{
    (void)state;
    write_file(&(file_spec){1, "{'a\n\x1b[2J\xff': 1}", 0});
    assert_refused("unknown key 'a??[2J?'");
}

static void test_every_truncation_is_refused(void **state)
{
    (void)state;
    unsigned char bytes[256];
    for (int version = 1; version <= 2; version++) {
        write_file(&(file_spec){version, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", 8});
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        size_t length = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        for (size_t kept = 0; kept < length; kept++) {
            write_bytes(bytes, kept);
            assert_refused("truncated");
        }
    }
}

static void test_other_files_and_versions_are_refused(void **state)
{
    (void)state;
    write_bytes("PK\3\4 this is a zip file", 22);
    assert_refused("not a .npy file");
    write_bytes("\x93NUMPY\4\0\2\0\0\0{}", 14);
    assert_refused("version 4.0");
    write_bytes("\x93NUMPY\1\1\2\0{}", 12);
    assert_refused("version 1.1");
    write_bytes("\x93NUMPY\0\0\2\0{}", 12);
    assert_refused("version 0.0");
    write_bytes("\x93NUMPY\2\0\xff\xff\xff\xff{}", 14);
    assert_refused("header of 4294967295 bytes");
}

static void test_a_header_with_zero_bytes_is_refused(void **state)
{
    (void)state;
    write_bytes("\x93NUMPY\1\0\4\0{\0}\n", 14);
    assert_refused("malformed");
}

static void test_what_is_no_regular_file_is_refused(void **state)
{
    (void)state;
    npy_array array;
    npy_error error;
    unlink(path);
    assert_refused("No such file");
    assert_false(npy_load(directory, &array, &error));
    assert_non_null(strstr(error.text, "regular file"));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused("regular file");
    unlink(path);
}

static void test_a_long_path_leaves_room_for_the_reason(void **state)
{
    (void)state;
    char name[2 * NPY_ERROR_SIZE];
    npy_array array;
    npy_error error;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_false(npy_load(name, &array, &error));
    assert_non_null(strstr(error.text, "too long"));
}

/* ---- writing ---- */

static void test_a_failed_write_keeps_the_old_file_and_leaves_nothing(void **state)
{
    (void)state;
    npy_array array;
    npy_error error;
    assert_true(npy_allocate(&array, NPY_F32, 0, NULL));
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(npy_save(path, &array, &error));
    assert_non_null(strstr(error.text, path));
    assert_int_equal(rmdir(path), 0);
    assert_false(npy_save("/nowhere/at/all.npy", &array, &error));
    assert_non_null(strstr(error.text, "/nowhere/at/all.npy: cannot write"));
    npy_release(&array);
}

static void test_a_full_device_is_an_error(void **state)
{
    (void)state;
    const int64_t shape[] = {100000};
    npy_array array;
    FILE *full = fopen("/dev/full", "wb");
    if (!full)
        skip();
    assert_true(npy_allocate(&array, NPY_F64, 1, shape));
    assert_false(write_contents(full, &array));
    fclose(full);
    npy_release(&array);
}

static void test_staged_files_appear_on_commit_only(void **state)
{
    (void)state;
    npy_array array;
    npy_error error;
    npy_staged staged;
    unlink(path);
    assert_true(npy_allocate(&array, NPY_I32, 0, NULL));
    assert_true(npy_stage(path, &array, &staged, &error));
    assert_int_not_equal(access(path, F_OK), 0);
    npy_discard(&staged);
    npy_discard(&staged);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_true(npy_stage(path, &array, &staged, &error));
    assert_true(npy_commit(&staged, &error));
    assert_int_equal(access(path, F_OK), 0);
    npy_release(&array);
}

static void test_shapes_beyond_memory_are_not_allocated(void **state)
{
    (void)state;
    npy_array array;
    assert_false(npy_allocate(&array, NPY_F64, 1, (const int64_t[]){INT64_MAX}));
    assert_null(array.data);
    assert_false(npy_allocate(&array, NPY_U8, 2, (const int64_t[]){INT64_C(1) << 32, INT64_C(1) << 32}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type_and_rank_survives_a_round_trip),
        cmocka_unit_test(test_arrays_without_elements_survive_a_round_trip),
        cmocka_unit_test(test_the_longest_header_survives_a_round_trip),
        cmocka_unit_test(test_written_data_starts_at_a_multiple_of_64),
        cmocka_unit_test(test_all_versions_spacings_orders_and_quotes_are_read),
        cmocka_unit_test(test_malformed_headers_are_refused),
        cmocka_unit_test(test_quoted_text_stays_on_one_line),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_other_files_and_versions_are_refused),
        cmocka_unit_test(test_a_header_with_zero_bytes_is_refused),
        cmocka_unit_test(test_what_is_no_regular_file_is_refused),
        cmocka_unit_test(test_a_long_path_leaves_room_for_the_reason),
        cmocka_unit_test(test_a_failed_write_keeps_the_old_file_and_leaves_nothing),
        cmocka_unit_test(test_a_full_device_is_an_error),
        cmocka_unit_test(test_staged_files_appear_on_commit_only),
        cmocka_unit_test(test_shapes_beyond_memory_are_not_allocated),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
