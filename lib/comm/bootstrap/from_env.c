/*
 * ls_group_from_env: read the environment, connect to the ranks, settle.
 */
#include "base/error.h"
#include "base/log.h"
#include "comm/api/group.h"
#include "comm/bootstrap/transports.h"
#include "comm/node/rank_cpus.h"
#include "fold/fold.h"
#include "observe/crash.h"

ls_status ls_group_from_env(ls_group **group)
{
    lsi_watch_crashes();
    LS_TRY(lsi_fold_check());
    lsi_world world;
    double seconds;
    ls_group *made = NULL;
    LS_NEED(group);
    LS_TRY(lsi_world_from_env(&world));
    LS_TRY(lsi_default_timeout(&seconds));
    if (world.size > 1)
        lsi_log_set_rank(world.rank);
    if (world.transport == NULL)
        LS_TRY(ls_group_open_threads(&made, 1));
    else
        LS_TRY(world.transport->meet(&world, seconds, &made));
    const ls_status status = lsi_group_settle(made);
    if (status != LS_OK) {
        ls_group_close(&made);
        return status;
    }
    lsi_rank_cpus_limit(made);
    *group = made;
    return LS_OK;
}
