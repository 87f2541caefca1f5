#include "comm/state/forks.h"

#include "base/error.h"
#include "base/fork.h"

unsigned lsi_forks;

static void in_child(void)
{
    lsi_forks++;
}

static lsi_fork_guard fork_guard = {.in_child = in_child};

void lsi_count_forks(void)
{
    lsi_guard_forks(&fork_guard);
}

ls_status lsi_refuse_inherited(const ls_group *group)
{
    return lsi_fail(LS_ERR_STATE,
                    "rank %d of %d forked this process. A forked child cannot "
                    "use the groups of its parent, but can open new groups",
                    group->rank, group->size);
}
