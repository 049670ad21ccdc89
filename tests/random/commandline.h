/* A trial as a `clattn run` command line, and its arrays as .npy files. */
#ifndef RANDOM_COMMANDLINE_H
#define RANDOM_COMMANDLINE_H

#include "recipe.h"

/* Prints the command line, and what it cannot say; files are named as commandline_save writes them to `directory`. */
void commandline_print(FILE *file, const struct recipe *recipe, const char *directory);

/* Writes the inputs to directory/NAME.npy, which must exist, and the logit function to logit.cl. False if a file
 * cannot be written. */
bool commandline_save(const struct recipe *recipe, const char *directory);

#endif /* RANDOM_COMMANDLINE_H */
