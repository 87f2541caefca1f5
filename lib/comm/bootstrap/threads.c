/*
 * Groups whose ranks are threads of one process.
 */
#include "base/error.h"
#include "base/memory.h"
#include "comm/api/group.h"
#include "comm/node/rank_cpus.h"
#include "comm/node/transport.h"
#include "fold/fold.h"

static ls_status open_all(lsi_node_memory *node, int size, ls_group **made)
{
    for (int r = 0; r < size; r++) {
        LS_TRY(lsi_group_open(lsi_node_memory_share(node),
                              lsi_first_membership(r, size), &made[r]));
    }
    lsi_job_begin(made[0]);
    for (int r = 0; r < size; r++) {
        lsi_group_look_around(made[r]);
        made[r]->memory.can_copy = true;
    }
    lsi_rank_cpus_limit(made[0]);
    return LS_OK;
}

ls_status ls_group_open_threads(ls_group **groups, int size)
{
    LS_NEED(groups);
    LS_TRY(lsi_fold_check());
    lsi_node_memory *node = NULL;
    void *block = NULL;
    if (size < 1 || size > LSI_MAX_RANKS)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "ls_group_open_threads: size is %d; a group can have 1 to %d ranks",
            size, LSI_MAX_RANKS);
    LS_TRY(lsi_node_memory_inproc(&node));
    ls_status status = lsi_alloc_zeroed(
        &block, (size_t)size * sizeof(ls_group *), LS_MEMORY_COMM, "groups");
    ls_group **made = block;
    if (status == LS_OK)
        status = open_all(node, size, made);
    for (int r = 0; r < size && made != NULL; r++) {
        if (status == LS_OK)
            groups[r] = made[r];
        else
            ls_group_close(&made[r]);
    }
    lsi_free(made);
    lsi_node_memory_release(node);
    return status;
}
