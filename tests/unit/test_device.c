/* Defends finding a device, by index, by a part of its name or without any, and the facts read of it. */
#include "device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/fake_cl.h"

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof *(array)))

/* ---- invented devices ---- */

static const struct fake_cl_device several[] = {
    {"Small Processor", CL_DEVICE_TYPE_CPU, ""},
    {"Big Graphics 10", CL_DEVICE_TYPE_GPU, "cl_khr_fp64"},
    {"Big Graphics 100", CL_DEVICE_TYPE_GPU, "cl_khr_fp64_not_quite x_cl_khr_fp64"},
    {"7 Accelerator", CL_DEVICE_TYPE_ACCELERATOR, "cl_khr_fp16 cl_khr_fp64"},
};

static int no_fakes(void **state)
{
    (void)state;
    fake_cl_set_devices(NULL, 0);
    return 0;
}

static void must_find(const char *selector, const char *name)
{
    clattn_device_info info;
    if (clattn_device_find(selector, &info) != CLATTN_SUCCESS)
        fail_msg("'%s': %s", selector ? selector : "NULL", clattn_message());
    assert_string_equal(info.name, name);
}

/* `words` are in the message. */
static void must_not_find(const char *selector, const char *const words[2])
{
    clattn_device_info info;
    assert_int_equal(clattn_device_find(selector, &info), CLATTN_INVALID_ARGUMENT);
    if (!strstr(clattn_message(), words[0]) || !strstr(clattn_message(), words[1]))
        fail_msg("'%s' names not both '%s' and '%s'", clattn_message(), words[0], words[1]);
}

static void test_the_first_gpu_is_the_default_or_else_the_first_device(void **state)
{
    (void)state;
    fake_cl_set_devices(several, COUNT_OF(several));
    must_find(NULL, "Big Graphics 10");
    fake_cl_set_devices(several, 1);
    must_find(NULL, "Small Processor");
}

static void test_an_index_names_a_device(void **state)
{
    (void)state;
    fake_cl_set_devices(several, COUNT_OF(several));
    for (int i = 0; i < COUNT_OF(several); i++) {
        char index[16];
        snprintf(index, sizeof index, "%d", i);
        must_find(index, several[i].name);
    }
    static const char *const wrong[] = {"4", "-1", "99999999999999999999"};
    for (int i = 0; i < COUNT_OF(wrong); i++)
        must_not_find(wrong[i], (const char *const[]){wrong[i], "0 .. 3"});
}

static void test_a_part_of_a_name_names_a_device(void **state)
{
    (void)state;
    fake_cl_set_devices(several, COUNT_OF(several));
    must_find("Small", "Small Processor");
    must_find("Processor", "Small Processor");
    must_find("7 Acc", "7 Accelerator");
    must_find("cs 100", "Big Graphics 100");
    must_find("Big Graphics 100", "Big Graphics 100");
    must_not_find("Tiny", (const char *const[]){"device", "Tiny"});
    must_not_find("Big Graphics 1000", (const char *const[]){"device", "Big Graphics 1000"});
    must_not_find("1x", (const char *const[]){"device", "1x"});
}

/* Also where it is the whole of one: there would be no telling a slip from a choice. */
static void test_a_part_of_two_names_is_refused_with_both(void **state)
{
    (void)state;
    fake_cl_set_devices(several, COUNT_OF(several));
    static const char *const parts[] = {"Big", "Graphics", "Big Graphics 10"};
    for (int i = 0; i < COUNT_OF(parts); i++)
        must_not_find(parts[i], (const char *const[]){"'Big Graphics 10'", "'Big Graphics 100'"});
}

static void test_facts_are_read_as_they_are(void **state)
{
    (void)state;
    fake_cl_set_devices(several, COUNT_OF(several));
    clattn_device_info infos[COUNT_OF(several)];
    int count;
    assert_int_equal(clattn_devices(infos, COUNT_OF(several), &count), CLATTN_SUCCESS);
    assert_int_equal(count, COUNT_OF(several));
    assert_true(infos[0].is_cpu && !infos[0].is_gpu && infos[1].is_gpu && !infos[1].is_cpu);
    assert_false(infos[0].has_fp64);
    assert_true(infos[1].has_fp64);
    assert_false(infos[2].has_fp64); /* only names that hold it */
    assert_true(infos[3].has_fp64);
}

static void test_long_names_are_cut_to_size(void **state)
{
    (void)state;
    char name[1000];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = 0;
    const struct fake_cl_device device = {name, CL_DEVICE_TYPE_GPU, ""};
    fake_cl_set_devices(&device, 1);
    clattn_device_info info;
    assert_int_equal(clattn_device_find("xxx", &info), CLATTN_SUCCESS);
    assert_int_equal(strlen(info.name), sizeof info.name - 1);
}

/* ---- platforms that fail ---- */

/* The third call is clGetDeviceIDs of the only platform. */
static void test_a_platform_that_fails_is_named_with_its_error(void **state)
{
    (void)state;
    clattn_device_info info;
    int count = -1;
    fake_cl_set_devices(several, COUNT_OF(several));
    fake_cl_reset();
    fake_cl_fail_call(3, CL_DEVICE_NOT_AVAILABLE);
    assert_int_equal(clattn_devices(NULL, 0, &count), CLATTN_DEVICE_ERROR);
    assert_string_equal(fake_cl_failed(), "clGetDeviceIDs");
    assert_non_null(strstr(clattn_message(), "'fake'"));
    assert_non_null(strstr(clattn_message(), "CL_DEVICE_NOT_AVAILABLE (-2)"));
    assert_int_equal(count, 0);
    fake_cl_reset();
    fake_cl_fail_call(3, CL_OUT_OF_HOST_MEMORY);
    assert_int_equal(clattn_device_find(NULL, &info), CLATTN_OUT_OF_MEMORY);
    assert_non_null(strstr(clattn_message(), "'fake'"));
    fake_cl_reset();
}

static void test_a_platform_without_devices_is_no_error_and_is_named(void **state)
{
    (void)state;
    clattn_device_info info;
    int count = -1;
    fake_cl_set_devices(several, COUNT_OF(several));
    fake_cl_reset();
    fake_cl_fail_call(3, CL_DEVICE_NOT_FOUND);
    assert_int_equal(clattn_devices(NULL, 0, &count), CLATTN_SUCCESS);
    assert_int_equal(count, 0);
    fake_cl_reset();
    fake_cl_fail_call(3, CL_DEVICE_NOT_FOUND);
    assert_int_equal(clattn_device_find(NULL, &info), CLATTN_UNSUPPORTED);
    assert_non_null(strstr(clattn_message(), "no OpenCL device"));
    assert_non_null(strstr(clattn_message(), "'fake'"));
    fake_cl_reset();
}

static void test_an_empty_selector_is_refused(void **state)
{
    (void)state;
    fake_cl_set_devices(several, COUNT_OF(several));
    must_not_find("", (const char *const[]){"device: ''", "expected"});
    fake_cl_set_devices(several, 1);
    must_not_find("", (const char *const[]){"device: ''", "expected"});
}

/* ---- the devices there are ---- */

static void test_the_list_fills_no_more_than_its_capacity(void **state)
{
    (void)state;
    fake_cl_set_devices(several, COUNT_OF(several));
    clattn_device_info infos[3];
    memset(infos, 0xa5, sizeof infos);
    clattn_device_info untouched = infos[2];
    int count = 0;
    assert_int_equal(clattn_devices(infos, 2, &count), CLATTN_SUCCESS);
    assert_int_equal(count, COUNT_OF(several));
    assert_memory_equal(&infos[2], &untouched, sizeof untouched);
    assert_int_equal(clattn_devices(NULL, 5, &count), CLATTN_SUCCESS);
    assert_int_equal(count, COUNT_OF(several));
    assert_int_equal(clattn_devices(infos, 2, NULL), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_message(), "count"));
}

static void test_real_devices_open_by_index_and_by_name(void **state)
{
    (void)state;
    clattn_device_info infos[16];
    int count;
    assert_int_equal(clattn_devices(infos, COUNT_OF(infos), &count), CLATTN_SUCCESS);
    for (int i = 0; i < count && i < COUNT_OF(infos); i++) {
        char index[16];
        snprintf(index, sizeof index, "%d", i);
        clattn_context *context;
        assert_int_equal(clattn_context_open(index, &context), CLATTN_SUCCESS);
        assert_ptr_equal(clattn_context_device(context), infos[i].id);
        assert_non_null(clattn_context_cl(context));
        assert_int_equal(clattn_context_programs_built(context), 0);
        clattn_context_release(context);
    }
    if (count != 1)
        return;
    clattn_context *context;
    assert_int_equal(clattn_context_open(infos[0].name, &context), CLATTN_SUCCESS);
    assert_ptr_equal(clattn_context_device(context), infos[0].id);
    clattn_context_release(context);
}

static void test_nothing_is_opened_by_a_wrong_name(void **state)
{
    (void)state;
    clattn_context *context = (clattn_context *)(void *)&context;
    assert_int_equal(clattn_context_open("no such device", &context), CLATTN_INVALID_ARGUMENT);
    assert_null(context);
    assert_non_null(strstr(clattn_message(), "no such device"));
    assert_int_equal(clattn_context_open(NULL, NULL), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_message(), "context"));
}

static void test_a_context_is_made_on_the_callers_own(void **state)
{
    (void)state;
    clattn_device_info info;
    assert_int_equal(clattn_device_find(NULL, &info), CLATTN_SUCCESS);
    cl_context cl = clCreateContext(NULL, 1, &info.id, NULL, NULL, NULL);
    clattn_context *context;
    assert_int_equal(clattn_context_create(cl, info.id, &context), CLATTN_SUCCESS);
    assert_ptr_equal(clattn_context_cl(context), cl);
    clReleaseContext(cl); /* the library holds its own reference */
    cl_uint references = 0;
    assert_int_equal(clGetContextInfo(cl, CL_CONTEXT_REFERENCE_COUNT, sizeof references, &references, NULL),
                     CL_SUCCESS);
    assert_int_equal(references, 1);
    clattn_context_release(context);
}

static void test_wrong_arguments_of_a_context_are_named(void **state)
{
    (void)state;
    clattn_device_info info;
    assert_int_equal(clattn_device_find(NULL, &info), CLATTN_SUCCESS);
    cl_context cl = clCreateContext(NULL, 1, &info.id, NULL, NULL, NULL);
    clattn_context *context;
    assert_int_equal(clattn_context_create(NULL, info.id, &context), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_message(), "cl: NULL"));
    assert_null(context);
    assert_int_equal(clattn_context_create(cl, NULL, &context), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_message(), "device: NULL"));
    assert_int_equal(clattn_context_create(cl, info.id, NULL), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_message(), "context: NULL"));
    /* a device, but not one of the context */
    assert_int_equal(clattn_context_create(cl, (cl_device_id)(void *)&info, &context),
                     CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(clattn_message(), "device"));
    clReleaseContext(cl);
    clattn_context_release(NULL);
}

/* ---- no device at all ---- */

/* What a process of its own finds with a loader that has no platform: 0 if all is as it should be. */
static int look_without_platform(void)
{
    int count = -1;
    clattn_context *context;
    if (clattn_devices(NULL, 0, &count) != CLATTN_SUCCESS || count != 0)
        return 1;
    if (clattn_context_open(NULL, &context) != CLATTN_UNSUPPORTED || context)
        return 2;
    return strstr(clattn_message(), "no OpenCL device") ? 0 : 3;
}

static const char *program; /* this one */
static char without_platform[] = "without-platform";

static void test_no_platform_is_said_in_so_many_words(void **state)
{
    (void)state;
    char folder[] = "/tmp/clattn-no-platform-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const pid_t child = fork();
    if (child == 0) {
        /* the two names that loaders know for where drivers are listed */
        setenv("OCL_ICD_VENDORS", folder, 1);
        setenv("OPENCL_VENDOR_PATH", folder, 1);
        unsetenv("OCL_ICD_FILENAMES");
        execl(program, program, without_platform, (char *)NULL);
        _exit(99);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    rmdir(folder);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], without_platform) == 0)
        return look_without_platform();
    program = argv[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_the_first_gpu_is_the_default_or_else_the_first_device, no_fakes),
        cmocka_unit_test_teardown(test_an_index_names_a_device, no_fakes),
        cmocka_unit_test_teardown(test_a_part_of_a_name_names_a_device, no_fakes),
        cmocka_unit_test_teardown(test_a_part_of_two_names_is_refused_with_both, no_fakes),
        cmocka_unit_test_teardown(test_facts_are_read_as_they_are, no_fakes),
        cmocka_unit_test_teardown(test_long_names_are_cut_to_size, no_fakes),
        cmocka_unit_test_teardown(test_the_list_fills_no_more_than_its_capacity, no_fakes),
        cmocka_unit_test_teardown(test_a_platform_that_fails_is_named_with_its_error, no_fakes),
        cmocka_unit_test_teardown(test_a_platform_without_devices_is_no_error_and_is_named, no_fakes),
        cmocka_unit_test_teardown(test_an_empty_selector_is_refused, no_fakes),
        cmocka_unit_test(test_real_devices_open_by_index_and_by_name),
        cmocka_unit_test(test_nothing_is_opened_by_a_wrong_name),
        cmocka_unit_test(test_a_context_is_made_on_the_callers_own),
        cmocka_unit_test(test_wrong_arguments_of_a_context_are_named),
        cmocka_unit_test(test_no_platform_is_said_in_so_many_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
