/* What the numeric tests share: the device under test, and trials that must pass on every engine. */
#ifndef SUITE_H
#define SUITE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

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
    for (int e = 0; clattn_engine_name(e); e++)
        must_pass_on(clattn_engine_name(e), trial, what);
    trial_free(trial);
}

#endif /* SUITE_H */
