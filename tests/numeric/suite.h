/* What the numeric tests share: the device under test, and trials that must pass on every engine. */
#ifndef SUITE_H
#define SUITE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engines/engine.h"
#include "support/trial.h"

/* CLATTN_TEST_DEVICE names the device, as `clattn --device` takes it; else the default one. */
static clattn_context *suite_context;

static int suite_open(void **state)
{
    (void)state;
    if (clattn_context_open(getenv("CLATTN_TEST_DEVICE"), &suite_context) == CLATTN_SUCCESS)
        return 0;
    print_error("%s\n", clattn_message());
    return -1;
}

static int suite_close(void **state)
{
    (void)state;
    clattn_context_release(suite_context);
    return 0;
}

static inline clattn_device_info suite_device(void)
{
    clattn_device_info info;
    assert_int_equal(clattn_context_describe(suite_context, &info), CLATTN_SUCCESS);
    return info;
}

/* True if engine e is under test and takes plain problems of a type on this device. CLATTN_TEST_ENGINE names one to
 * test alone. */
static inline bool suite_takes(int e, clattn_dtype dtype)
{
    const char *only = getenv("CLATTN_TEST_ENGINE");
    const clattn_device_info device = suite_device();
    clattn_problem problem;
    char reason[256];
    clattn_problem_init(&problem, CLATTN_FORWARD, &(clattn_sizes){1, 1, 1, 1, 1, 16, 16});
    problem.dtype = problem.out_dtype = problem.bias_dtype = dtype;
    return (!only || strcmp(only, clattn_engine_name(e)) == 0) &&
           clattn_engine_at(e)->supports(&device, CLATTN_FORWARD, &problem, reason, sizeof reason);
}

/* The first engine under test from number *e on, and its number; NULL if there is none. */
static inline const char *suite_engine(int *e, clattn_dtype dtype)
{
    while (clattn_engine_name(*e) && !suite_takes(*e, dtype))
        ++*e;
    return clattn_engine_name(*e);
}

/* Loops over them. */
#define FOR_EACH_ENGINE(name, dtype)                                                                         \
    for (const char *name, *once_ = ""; once_; once_ = NULL)                                                 \
        for (int e_ = 0; (name = suite_engine(&e_, dtype)); e_++)

/* Runs a trial, as filled, on one engine; `what` names the case in the failure. */
static inline void must_pass_on(const char *engine, struct trial *trial, const char *what)
{
    struct trial_report report;
    trial->problem.engine = engine;
    trial_run(suite_context, trial, &report);
    if (!report.passed)
        fail_msg("%s, %s: %s", engine, what, report.message);
}

/* The same on every engine, and frees the trial. */
static inline void must_pass(struct trial *trial, const char *what)
{
    FOR_EACH_ENGINE(engine, trial->problem.dtype)
    must_pass_on(engine, trial, what);
    trial_free(trial);
}

#endif /* SUITE_H */
