#include "model/checkpoint/prune.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "model/checkpoint/cache.h"
#include "model/checkpoint/find.h"

typedef struct pruning {
    const char *folder;
    int64_t saved;
    size_t keep;
    bool alone;
    const int64_t *steps; /* newest first */
    size_t n;
} pruning;

static lsi_path path_of(const pruning *p, size_t i)
{
    return lsi_step_folder(p->folder, p->steps[i]);
}

static lsi_step_state state_of(const pruning *p, size_t i)
{
    return lsi_step_look(p->folder, p->steps[i]);
}

/* ---- what is newer ------------------------------------------------------- */

static void tell_newer(const pruning *p, size_t newest, size_t count)
{
    char kind[sizeof(lsi_path) + 16];
    const lsi_path path = path_of(p, newest);
    snprintf(kind, sizeof kind, "newer: %s", path.text);
    if (!lsi_checkpoint_cache_is_first(kind))
        return;
    if (lsi_checkpoint_verify_once(path.text) != LS_OK)
        lsi_log(LSI_LOG_WARN,
                "'%s' is newer than step %" PRId64 ", which was just saved, "
                "but not whole: it is neither counted nor removed; %s",
                path.text, p->saved, ls_last_error());
    else
        lsi_log(LSI_LOG_WARN,
                "'%s' holds %zu checkpoints that are newer than step %" PRId64
                ", which was just saved, up to step %" PRId64 ": they are "
                "neither counted nor removed, and opened first; another run "
                "needs another folder",
                p->folder, count, p->saved, p->steps[newest]);
}

/* Returns where the older ones begin. */
static size_t pass_newer(const pruning *p)
{
    size_t i = 0, newest = 0, count = 0;
    for (; i < p->n && p->steps[i] >= p->saved; i++) {
        if (p->steps[i] == p->saved || state_of(p, i) != LSI_STEP_ENDED)
            continue;
        if (count++ == 0)
            newest = i;
    }
    if (count > 0)
        tell_newer(p, newest, count);
    return i;
}

/* ---- what is older ------------------------------------------------------- */

static void remove_step(const pruning *p, size_t i)
{
    if (lsi_step_remove(p->folder, p->steps[i]) != LS_OK &&
        lsi_checkpoint_cache_is_first(ls_last_error()))
        lsi_log(LSI_LOG_WARN, "%s", ls_last_error());
}

static bool is_whole(const pruning *p, size_t i)
{
    if (lsi_checkpoint_verify_once(path_of(p, i).text) == LS_OK)
        return true;
    if (lsi_checkpoint_cache_is_first(ls_last_error()))
        lsi_log(LSI_LOG_WARN, "not counted: %s", ls_last_error());
    return false;
}

static size_t count_ended(const pruning *p, size_t from)
{
    size_t n = 0;
    for (size_t i = from; i < p->n; i++)
        n += state_of(p, i) == LSI_STEP_ENDED;
    return n;
}

/* Which are whole matters only if there may be too many. */
static void remove_older(const pruning *p, size_t from)
{
    const bool too_many = p->keep > 0 && count_ended(p, from) >= p->keep;
    size_t whole = 1;
    for (size_t i = from; i < p->n; i++) {
        const lsi_step_state state = state_of(p, i);
        if (state == LSI_STEP_TORN && p->alone)
            remove_step(p, i);
        if (state != LSI_STEP_ENDED || !too_many)
            continue;
        if (whole >= p->keep)
            remove_step(p, i);
        else if (is_whole(p, i))
            whole++;
    }
}

void lsi_checkpoint_prune(const char *folder, int64_t saved, int keep,
                          bool alone)
{
    int64_t *steps;
    size_t n;
    if (lsi_steps_list(folder, &steps, &n) != LS_OK)
        return;
    const pruning p = {folder, saved, (size_t)keep, alone, steps, n};
    remove_older(&p, pass_newer(&p));
    lsi_free(steps);
}
