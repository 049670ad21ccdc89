/*
 * Making directories that the user names.
 */
#include "directory.h"

#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Makes one directory; one that is there already is fine. */
static bool make_directory(const char *path)
{
    struct stat facts;
    if (mkdir(path, 0777) == 0)
        return true;
    int reason = errno;
    bool there = stat(path, &facts) == 0, directory = there && S_ISDIR(facts.st_mode);
    errno = there ? ENOTDIR : reason;
    return directory;
}

int directory_make(const char *directory)
{
    char *path = malloc(strlen(directory) + 1);
    if (!path)
        return cli_fail("out of memory");
    strcpy(path, directory);
    bool ok = true;
    for (char *slash = strchr(path + (path[0] == '/'), '/'); slash && ok; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        ok = make_directory(path);
        if (ok)
            *slash = '/';
    }
    ok = ok && make_directory(path);
    int code = CLI_OK;
    if (!ok) /* path ends where it failed */
        code = cli_fail("--out: %s: cannot make the directory: %s: %s", directory, path, strerror(errno));
    free(path);
    return code;
}
