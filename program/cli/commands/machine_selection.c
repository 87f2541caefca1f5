#include "cli/commands/machine_selection.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/busy.h"
#include "base/cache_path.h"
#include "base/cpuset.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/api/machine_table.h"

static bool describe(const lsi_machine_key *key, char *out)
{
    lsi_machine_table table;
    if (access(key->path, F_OK) != 0) {
        snprintf(out, LSI_SELECTION_TEXT,
                 "none; `lockstep tune` measures a table for this machine");
        return false;
    }
    if (lsi_machine_table_read(key, &table) != LS_OK) {
        snprintf(out, LSI_SELECTION_TEXT, "ignored (%s)", ls_last_error());
        return false;
    }
    lsi_free(table.lines);
    const bool busy = lsi_busy_rule(table.others, table.available);
    if (busy)
        snprintf(out, LSI_SELECTION_TEXT,
                 "%s, measured while other processes used %.1f of the %d CPUs; "
                 "run `lockstep tune` again on an idle machine",
                 key->path, table.others, table.available);
    else
        snprintf(out, LSI_SELECTION_TEXT, "%s", key->path);
    return !busy;
}

bool lsi_machine_selection(char out[LSI_SELECTION_TEXT])
{
    lsi_cpuset cpus = {{0}};
    lsi_machine_key key;
    bool wanted;
    if (lsi_machine_table_wanted(&wanted) != LS_OK)
        snprintf(out, LSI_SELECTION_TEXT, "ignored (%s)", ls_last_error());
    else if (!wanted)
        snprintf(out, LSI_SELECTION_TEXT, "ignored (LOCKSTEP_TUNE=off)");
    else if (getenv("LOCKSTEP_SELECT") != NULL)
        snprintf(out, LSI_SELECTION_TEXT, "ignored (LOCKSTEP_SELECT is set)");
    else if (!lsi_cpuset_own(&cpus) || !lsi_machine_key_of(&cpus, &key))
        snprintf(out, LSI_SELECTION_TEXT, "none; " LSI_NO_CACHE_PATH);
    else
        return describe(&key, out);
    return false;
}
