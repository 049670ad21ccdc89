/* The least that a C99 program does with an installed clattn: fill a problem
 * and have it checked. Header and library must be of one version. */
#include <clattn/clattn.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", CLATTN_VERSION_MAJOR, CLATTN_VERSION_MINOR,
             CLATTN_VERSION_PATCH);
    clattn_problem problem;
    clattn_problem_init(&problem, CLATTN_JVP, &(clattn_sizes){1, 8, 8, 512, 512, 64, 64});
    if (strcmp(version, clattn_version()) != 0 ||
        clattn_problem_check(&problem, CLATTN_JVP) != CLATTN_SUCCESS) {
        fprintf(stderr, "header %s, library %s: %s\n", version, clattn_version(), clattn_message());
        return 1;
    }
    return 0;
}
