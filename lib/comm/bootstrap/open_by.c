/*
 * ls_group_open_by: ranks that can gather bytes from all, as those of an MPI
 * communicator can. A rank that cannot join takes part in the first gather, so
 * that the others fail with its reason.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "comm/api/group.h"
#include "comm/bootstrap/open.h"
#include "comm/state/segment.h"
#include "fold/fold.h"
#include "observe/crash.h"

/* The limit of a rank that cannot join and has no timeout, to report why. */
#define REPORT_SECONDS 60.0

/* The caller's all-gather. */
typedef struct gatherer {
    ls_gather_fn gather;
    void *context;
} gatherer;

static ls_status gather(void *context, const void *send, size_t bytes,
                        void *recv, double seconds)
{
    const gatherer *g = context;
    char why[LS_WHY_BYTES] = "";
    const ls_status status =
        g->gather(g->context, send, bytes, recv, seconds, why);
    if (status == LS_OK)
        return LS_OK;
    why[sizeof(why) - 1] = '\0';
    if (status == LS_IN_PROGRESS ||
        strcmp(ls_status_name(status), "LS_UNKNOWN") == 0)
        return lsi_fail(LS_ERR_SYSTEM,
                        "the gather function returned %d; it must return LS_OK "
                        "or an LS_ERR_ status",
                        (int)status);
    return lsi_fail(status, "the ranks cannot connect: %s",
                    why[0] != '\0' ? why : ls_status_text(status));
}

/* A size that no group can have is refused by all ranks alike. */
static ls_status check_size(ls_gather_fn function, int size)
{
    if (function == NULL)
        return lsi_fail(LS_ERR_ARGUMENT, "ls_group_open_by: gather is NULL");
    if (size < 1 || size > LSI_MAX_RANKS)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "ls_group_open_by: size is %d; a group can have 1 to %d ranks",
            size, LSI_MAX_RANKS);
    return LS_OK;
}

/* Whether this rank can join; *seconds becomes the timeout in any case. */
static ls_status check_own(ls_group **group, int rank, int size,
                           double *seconds)
{
    const ls_status status = lsi_timeout_of("ls_group_open_by", seconds);
    if (status != LS_OK)
        *seconds = REPORT_SECONDS;
    LS_TRY(status);
    if (group == NULL)
        return lsi_fail(LS_ERR_ARGUMENT, "ls_group_open_by: group is NULL");
    LS_TRY(lsi_fold_check());
    if (rank < 0 || rank >= size)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_group_open_by: rank %d is not in the group, which "
                        "has ranks 0 to %d",
                        rank, size - 1);
    return LS_OK;
}

ls_status ls_group_open_by(ls_group **group, int rank, int size,
                           ls_gather_fn function, void *context, double seconds)
{
    gatherer g = {function, context};
    const lsi_reach reach = {
        .context = &g, .gather = gather, .prepare = lsi_open_prepare};
    const lsi_world world = {.rank = rank,
                             .size = size,
                             .local_rank = rank,
                             .local_size = size,
                             .named_by = "ls_group_open_by"};
    ls_group *made = NULL;
    lsi_watch_crashes();
    LS_TRY(check_size(function, size));
    const ls_status able = check_own(group, rank, size, &seconds);
    if (size > 1)
        LS_TRY(lsi_meet_agreed(&reach, &world, able, seconds));
    LS_TRY(able);
    LS_TRY(size == 1 ? ls_group_open_threads(&made, 1)
                     : lsi_meet_on_nodes(&reach, &world, seconds, &made));
    return lsi_open_finish(made, seconds, group);
}
