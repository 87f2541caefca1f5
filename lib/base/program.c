#include "base/program.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

static char found[LSI_PROGRAM_BYTES]; /* by argv[0]; "": not needed, or none */

static bool read_link(char out[LSI_PROGRAM_BYTES])
{
    const ssize_t n = readlink("/proc/self/exe", out, LSI_PROGRAM_BYTES - 1);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* Keeps the name in a folder ("": this one) if that is a program. */
static bool keep(const char *folder, size_t bytes, const char *name)
{
    char path[LSI_PROGRAM_BYTES], here[LSI_PROGRAM_BYTES] = "";
    const char *const slash = bytes > 0 ? "/" : "";
    int n = snprintf(path, sizeof(path), "%.*s%s%s", (int)bytes, folder, slash,
                     name);
    struct stat info;
    if (n >= (int)sizeof(path) || stat(path, &info) != 0 ||
        !S_ISREG(info.st_mode) || access(path, X_OK) != 0 ||
        (path[0] != '/' && getcwd(here, sizeof(here)) == NULL))
        return false;
    n = snprintf(found, sizeof(found), "%s%s%s", here,
                 here[0] != '\0' ? "/" : "", path);
    if (n >= (int)sizeof(found))
        found[0] = '\0';
    return found[0] != '\0';
}

void lsi_program_start(const char *argv0)
{
    char path[LSI_PROGRAM_BYTES];
    const char *at = getenv("PATH");
    if (read_link(path) || argv0 == NULL || argv0[0] == '\0')
        return;
    if (strchr(argv0, '/') != NULL) {
        (void)keep("", 0, argv0);
        return;
    }
    while (at != NULL) {
        const size_t bytes = strcspn(at, ":");
        if (keep(at, bytes, argv0))
            return;
        at = at[bytes] == ':' ? at + bytes + 1 : NULL;
    }
}

ls_status lsi_program_path(char out[LSI_PROGRAM_BYTES])
{
    char path[LSI_PROGRAM_BYTES];
    if (!read_link(path))
        memcpy(path, found, sizeof(path));
    if (path[0] == '\0')
        return lsi_fail(LS_ERR_SYSTEM,
                        "cannot find the path of this program: /proc/self/exe "
                        "cannot be read, and argv[0] names no program; start "
                        "lockstep by its full path");
    memcpy(out, path, sizeof(path));
    return LS_OK;
}
