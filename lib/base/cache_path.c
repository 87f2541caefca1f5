#include "base/cache_path.h"

#include <stdio.h>
#include <stdlib.h>

bool lsi_cache_path(const char *name, char *out, size_t bytes)
{
    const char *const cache = getenv("XDG_CACHE_HOME");
    const char *const home = getenv("HOME");
    const bool own = cache != NULL && cache[0] == '/';
    if (!own && (home == NULL || home[0] != '/'))
        return false;
    return (size_t)snprintf(out, bytes, "%s%s/lockstep/%s", own ? cache : home,
                            own ? "" : "/.cache", name) < bytes;
}
