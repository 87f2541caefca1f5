#include "base/restart.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *variable(const char *name, const char *of_torchrun)
{
    const char *value = getenv(name);
    if (value == NULL || value[0] == '\0')
        value = getenv(of_torchrun);
    return value != NULL ? value : "";
}

int lsi_restarts(void)
{
    char *end;
    const char *const text =
        variable("LOCKSTEP_RESTART", "TORCHELASTIC_RESTART_COUNT");
    const long n = strtol(text, &end, 10);
    return end != text && *end == '\0' && n > 0 && n < INT_MAX ? (int)n : 0;
}

bool lsi_restart_folder(const char *name, char *out, size_t room)
{
    const int attempt = lsi_restarts();
    const int n = attempt == 0
                      ? snprintf(out, room, "%s", name)
                      : snprintf(out, room, "%s/attempt-%d", name, attempt);
    return n >= 0 && (size_t)n < room;
}

/* It becomes part of a line of JSON. */
const char *lsi_restart_run(void)
{
    enum { MOST = 200 };
    const char *run = variable("LOCKSTEP_RUN", "TORCHELASTIC_RUN_ID");
    if (strcmp(run, "none") == 0) /* torchrun's, unless --rdzv-id names it */
        run = "";
    size_t n = 0;
    while (run[n] > ' ' && run[n] <= '~' && n < MOST)
        n++;
    return run[n] == '\0' ? run : "";
}
