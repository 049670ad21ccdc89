/*
 * The options of a problem as a list, so that tests and `clattn check` can
 * take them alone, in pairs or at random.
 */
#ifndef TEST_OPTIONS_H
#define TEST_OPTIONS_H

#include "trial.h"

struct trial_option {
    const char *name;
    /* Sets the option on a trial that has been initialised and not yet filled. */
    void (*set)(struct trial *trial);
    /* Changes the filled data, if the option needs it; or NULL. */
    void (*finish)(struct trial *trial);
    int excludes;      /* options with the same number other than 0 exclude each other */
    bool paired;       /* taken with every other paired option; the rest are drawn together at random only */
    bool has_code;     /* not only other values of what another option has code for */
    bool type_matters; /* and the code depends on the element type */
};

extern const struct trial_option trial_options[];
extern const int trial_option_count;

#endif /* TEST_OPTIONS_H */
