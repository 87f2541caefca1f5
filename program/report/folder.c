#include "report/folder.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* The name as a pattern that fits only itself; returns its end. */
static char *quote(char *to, const char *name)
{
    for (; *name != '\0'; name++) {
        if (strchr("*?[]\\", *name) != NULL)
            *to++ = '\\';
        *to++ = *name;
    }
    *to = '\0';
    return to;
}

ls_status lsi_find_files(const char *folder, const char *pattern, glob_t *out)
{
    enum { PATTERN_BYTES = 64 };
    char path[2 * PATH_MAX + PATTERN_BYTES];
    glob_t found = {0};
    if (strlen(folder) >= PATH_MAX)
        return lsi_fail(LS_ERR_IO, "%s is too long a name", folder);
    snprintf(quote(path, folder), PATTERN_BYTES, "/%s", pattern);
    const int failed = glob(path, 0, NULL, &found);
    if (failed == GLOB_NOSPACE)
        return lsi_fail(LS_ERR_MEMORY, "no memory for the files of %s", folder);
    if (failed != 0 && failed != GLOB_NOMATCH)
        return lsi_fail_errno(LS_ERR_IO, "cannot read %s", folder);
    *out = found;
    return LS_OK;
}
