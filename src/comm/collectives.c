/*
 * The public collectives: check the arguments, fill in an op, complete it.
 */
#include "base/error.h"
#include "comm/check.h"
#include "comm/collective.h"
#include "comm/engine.h"

static ls_status run(ls_group *group, const lsi_call *call, const void *send,
                     void *recv)
{
    LS_TRY(lsi_op_prepare(&group->call, group, call, send, recv));
    group->counters.collectives++;
    return lsi_op_complete(&group->call);
}

/* Checks both buffers, of so many blocks each, and their overlap. */
static ls_status check_both(const lsi_call *call, lsi_span send, lsi_span recv,
                            long in_place)
{
    LS_TRY(lsi_check_span(call, send));
    LS_TRY(lsi_check_span(call, recv));
    return lsi_check_overlap(call, send, recv, in_place);
}

ls_status ls_barrier(ls_group *group)
{
    LS_TRY(lsi_check_group(group, "barrier"));
    return run(group, &(lsi_call){.operation = LSI_OP_BARRIER}, NULL, NULL);
}

ls_status ls_broadcast(ls_group *group, void *data, size_t count,
                       ls_dtype dtype, int root)
{
    const lsi_call call = {LSI_OP_BROADCAST, dtype, LS_SUM, root, count};
    LS_TRY(lsi_check_arguments(group, &call));
    LS_TRY(lsi_check_span(&call, (lsi_span){"data", data, 1}));
    return run(group, &call, data, data);
}

ls_status ls_all_reduce(ls_group *group, const void *send, void *recv,
                        size_t count, ls_dtype dtype, ls_reduce_op op)
{
    const lsi_call call = {LSI_OP_ALL_REDUCE, dtype, op, 0, count};
    LS_TRY(lsi_check_arguments(group, &call));
    LS_TRY(check_both(&call, (lsi_span){"send", send, 1},
                      (lsi_span){"recv", recv, 1}, 0));
    return run(group, &call, send, recv);
}

ls_status ls_reduce(ls_group *group, const void *send, void *recv, size_t count,
                    ls_dtype dtype, ls_reduce_op op, int root)
{
    const lsi_call call = {LSI_OP_REDUCE, dtype, op, root, count};
    LS_TRY(lsi_check_arguments(group, &call));
    LS_TRY(lsi_check_span(&call, (lsi_span){"send", send, 1}));
    if (group->rank != root)
        return run(group, &call, send, NULL);
    LS_TRY(check_both(&call, (lsi_span){"send", send, 1},
                      (lsi_span){"recv", recv, 1}, 0));
    return run(group, &call, send, recv);
}

ls_status ls_all_gather(ls_group *group, const void *send, void *recv,
                        size_t count, ls_dtype dtype)
{
    const lsi_call call = {LSI_OP_ALL_GATHER, dtype, LS_SUM, 0, count};
    LS_TRY(lsi_check_arguments(group, &call));
    LS_TRY(check_both(&call, (lsi_span){"send", send, 1},
                      (lsi_span){"recv", recv, (size_t)group->size},
                      -group->rank));
    return run(group, &call, send, recv);
}

ls_status ls_reduce_scatter(ls_group *group, const void *send, void *recv,
                            size_t count, ls_dtype dtype, ls_reduce_op op)
{
    const lsi_call call = {LSI_OP_REDUCE_SCATTER, dtype, op, 0, count};
    LS_TRY(lsi_check_arguments(group, &call));
    LS_TRY(check_both(&call, (lsi_span){"send", send, (size_t)group->size},
                      (lsi_span){"recv", recv, 1}, group->rank));
    return run(group, &call, send, recv);
}

ls_status ls_gather(ls_group *group, const void *send, void *recv, size_t count,
                    ls_dtype dtype, int root)
{
    const lsi_call call = {LSI_OP_GATHER, dtype, LS_SUM, root, count};
    LS_TRY(lsi_check_arguments(group, &call));
    LS_TRY(lsi_check_span(&call, (lsi_span){"send", send, 1}));
    if (group->rank != root)
        return run(group, &call, send, NULL);
    LS_TRY(check_both(&call, (lsi_span){"send", send, 1},
                      (lsi_span){"recv", recv, (size_t)group->size}, -root));
    return run(group, &call, send, recv);
}

ls_status ls_scatter(ls_group *group, const void *send, void *recv,
                     size_t count, ls_dtype dtype, int root)
{
    const lsi_call call = {LSI_OP_SCATTER, dtype, LS_SUM, root, count};
    LS_TRY(lsi_check_arguments(group, &call));
    LS_TRY(lsi_check_span(&call, (lsi_span){"recv", recv, 1}));
    if (group->rank != root)
        return run(group, &call, NULL, recv);
    LS_TRY(check_both(&call, (lsi_span){"send", send, (size_t)group->size},
                      (lsi_span){"recv", recv, 1}, root));
    return run(group, &call, send, recv);
}

ls_status ls_all_to_all(ls_group *group, const void *send, void *recv,
                        size_t count, ls_dtype dtype)
{
    const lsi_call call = {LSI_OP_ALL_TO_ALL, dtype, LS_SUM, 0, count};
    LS_TRY(lsi_check_arguments(group, &call));
    LS_TRY(check_both(&call, (lsi_span){"send", send, (size_t)group->size},
                      (lsi_span){"recv", recv, (size_t)group->size}, 0));
    return run(group, &call, send, recv);
}
