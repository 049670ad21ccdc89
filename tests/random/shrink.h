/* Makes a failing problem small: takes away what is not needed for it to fail in the same way. */
#ifndef RANDOM_SHRINK_H
#define RANDOM_SHRINK_H

#include "recipe.h"

/* Shrinks `recipe`, which failed as *report says, for up to so many seconds; *report becomes that of the small one. */
void shrink(clattn_context *context, struct recipe *recipe, struct trial_report *report, double seconds);

#endif /* RANDOM_SHRINK_H */
