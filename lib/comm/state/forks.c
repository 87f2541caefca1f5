#include "comm/state/forks.h"

#include <pthread.h>

#include "base/error.h"

unsigned lsi_forks;

static void in_child(void)
{
    lsi_forks++;
}

static void mind_forks(void)
{
    (void)pthread_atfork(NULL, NULL, in_child);
}

void lsi_count_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, mind_forks);
}

ls_status lsi_refuse_inherited(const ls_group *group)
{
    return lsi_fail(LS_ERR_STATE,
                    "rank %d of %d has forked this process, which is no member "
                    "of the groups that it had; a child may open its own",
                    group->rank, group->size);
}
