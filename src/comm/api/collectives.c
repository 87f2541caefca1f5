/*
 * The public collectives: check the arguments, fill in an op, complete it.
 */
#include "base/error.h"
#include "comm/api/check.h"
#include "comm/core/agree.h"
#include "comm/core/collective.h"
#include "comm/core/wait.h"

/* A call whose arguments or memory are not right is refused, not kept back. */
static ls_status run(ls_group *group, const lsi_call *call, ls_status checked,
                     const void *send, void *recv)
{
    ls_status status = checked;
    if (status == LS_OK)
        status = lsi_collective_prepare(&group->call, group, call, send, recv);
    if (status != LS_OK)
        return lsi_refuse(group, call, status);
    group->counters->collectives++;
    return lsi_collective_complete(&group->call);
}

static ls_status check_one(const ls_group *group, const lsi_call *call,
                           lsi_buffer_extent span)
{
    LS_TRY(lsi_check_arguments(group, call));
    return lsi_check_extent(call, span);
}

ls_status ls_barrier(ls_group *group)
{
    LS_TRY(lsi_check_group(group, "barrier"));
    const lsi_call call = {.operation = LSI_OP_BARRIER};
    return run(group, &call, LS_OK, NULL, NULL);
}

ls_status ls_broadcast(ls_group *group, void *data, size_t count,
                       ls_dtype dtype, int root)
{
    LS_TRY(lsi_check_group(group, "broadcast"));
    const lsi_call call = {LSI_OP_BROADCAST, dtype, LS_SUM, root, count, LS_OK};
    const lsi_buffer_extent span = {"data", data, 1};
    return run(group, &call, check_one(group, &call, span), data, data);
}

ls_status ls_all_reduce(ls_group *group, const void *send, void *recv,
                        size_t count, ls_dtype dtype, ls_reduce_op op)
{
    LS_TRY(lsi_check_group(group, "all_reduce"));
    const lsi_call call = {LSI_OP_ALL_REDUCE, dtype, op, 0, count, LS_OK};
    const lsi_buffer_extent from = {"send", send, 1}, to = {"recv", recv, 1};
    return run(group, &call, lsi_check_both(group, &call, from, to, 0), send,
               recv);
}

ls_status ls_reduce(ls_group *group, const void *send, void *recv, size_t count,
                    ls_dtype dtype, ls_reduce_op op, int root)
{
    LS_TRY(lsi_check_group(group, "reduce"));
    const lsi_call call = {LSI_OP_REDUCE, dtype, op, root, count, LS_OK};
    const lsi_buffer_extent from = {"send", send, 1}, to = {"recv", recv, 1};
    if (group->rank != root)
        return run(group, &call, check_one(group, &call, from), send, NULL);
    return run(group, &call, lsi_check_both(group, &call, from, to, 0), send,
               recv);
}

ls_status ls_all_gather(ls_group *group, const void *send, void *recv,
                        size_t count, ls_dtype dtype)
{
    LS_TRY(lsi_check_group(group, "all_gather"));
    const lsi_call call = {LSI_OP_ALL_GATHER, dtype, LS_SUM, 0, count, LS_OK};
    const lsi_buffer_extent from = {"send", send, 1};
    const lsi_buffer_extent to = {"recv", recv, (size_t)group->size};
    return run(group, &call,
               lsi_check_both(group, &call, from, to, -group->rank), send,
               recv);
}

ls_status ls_reduce_scatter(ls_group *group, const void *send, void *recv,
                            size_t count, ls_dtype dtype, ls_reduce_op op)
{
    LS_TRY(lsi_check_group(group, "reduce_scatter"));
    const lsi_call call = {LSI_OP_REDUCE_SCATTER, dtype, op, 0, count, LS_OK};
    const lsi_buffer_extent from = {"send", send, (size_t)group->size};
    const lsi_buffer_extent to = {"recv", recv, 1};
    return run(group, &call,
               lsi_check_both(group, &call, from, to, group->rank), send, recv);
}

ls_status ls_gather(ls_group *group, const void *send, void *recv, size_t count,
                    ls_dtype dtype, int root)
{
    LS_TRY(lsi_check_group(group, "gather"));
    const lsi_call call = {LSI_OP_GATHER, dtype, LS_SUM, root, count, LS_OK};
    const lsi_buffer_extent from = {"send", send, 1};
    const lsi_buffer_extent to = {"recv", recv, (size_t)group->size};
    if (group->rank != root)
        return run(group, &call, check_one(group, &call, from), send, NULL);
    return run(group, &call, lsi_check_both(group, &call, from, to, -root),
               send, recv);
}

ls_status ls_scatter(ls_group *group, const void *send, void *recv,
                     size_t count, ls_dtype dtype, int root)
{
    LS_TRY(lsi_check_group(group, "scatter"));
    const lsi_call call = {LSI_OP_SCATTER, dtype, LS_SUM, root, count, LS_OK};
    const lsi_buffer_extent from = {"send", send, (size_t)group->size};
    const lsi_buffer_extent to = {"recv", recv, 1};
    if (group->rank != root)
        return run(group, &call, check_one(group, &call, to), NULL, recv);
    return run(group, &call, lsi_check_both(group, &call, from, to, root), send,
               recv);
}

ls_status ls_all_to_all(ls_group *group, const void *send, void *recv,
                        size_t count, ls_dtype dtype)
{
    LS_TRY(lsi_check_group(group, "all_to_all"));
    const lsi_call call = {LSI_OP_ALL_TO_ALL, dtype, LS_SUM, 0, count, LS_OK};
    const lsi_buffer_extent from = {"send", send, (size_t)group->size};
    const lsi_buffer_extent to = {"recv", recv, (size_t)group->size};
    return run(group, &call, lsi_check_both(group, &call, from, to, 0), send,
               recv);
}
