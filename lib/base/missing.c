#include "base/missing.h"

#include <stdio.h>

enum { MORE_BYTES = 48 };

int lsi_missing_ranks(const char *here, int n, char *text, size_t bytes)
{
    size_t used = 0;
    int missing = 0, named = 0;
    text[0] = '\0';
    for (int r = 0; r < n; r++) {
        if (here[r])
            continue;
        missing++;
        if (used + MORE_BYTES > bytes)
            continue;
        named++;
        used += (size_t)snprintf(text + used, bytes - used, "%srank %d",
                                 used == 0 ? "" : ", ", r);
    }
    if (missing > named)
        snprintf(text + used, bytes - used, " and %d more", missing - named);
    return missing;
}
