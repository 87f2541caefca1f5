/*
 * The public collectives: check the arguments, fill in an op, and complete it,
 * or start it.
 */
#include "base/error.h"
#include "comm/api/check.h"
#include "comm/api/request.h"
#include "comm/core/agree.h"
#include "comm/core/collective.h"
#include "comm/core/on_done.h"
#include "comm/core/wait.h"

/* A call whose arguments or memory are not right is refused, not kept back. */
static ls_status run(ls_group *group, lsi_call call, const void *send,
                     void *recv)
{
    LS_TRY(lsi_check_group(group, lsi_operation_name(call.operation)));
    ls_status status = lsi_check_buffers(group, &call, send, recv);
    if (status == LS_OK)
        status = lsi_collective_prepare(&group->call, group, &call,
                                        lsi_sent_from(group, &call, send),
                                        lsi_received_at(group, &call, recv));
    if (status != LS_OK)
        return lsi_refuse(group, &call, status);
    group->counters->collectives++;
    status = lsi_collective_complete(&group->call);
    lsi_on_done_deliver(group);
    return status;
}

/* ---- that return when done ---------------------------------------------- */

ls_status ls_barrier(ls_group *group)
{
    return run(group, (lsi_call){.operation = LSI_OP_BARRIER}, NULL, NULL);
}

ls_status ls_broadcast(ls_group *group, void *data, size_t count,
                       ls_dtype dtype, int root)
{
    return run(group,
               (lsi_call){LSI_OP_BROADCAST, dtype, LS_SUM, root, count, LS_OK},
               data, data);
}

ls_status ls_all_reduce(ls_group *group, const void *send, void *recv,
                        size_t count, ls_dtype dtype, ls_reduce_op op)
{
    return run(group, (lsi_call){LSI_OP_ALL_REDUCE, dtype, op, 0, count, LS_OK},
               send, recv);
}

ls_status ls_reduce(ls_group *group, const void *send, void *recv, size_t count,
                    ls_dtype dtype, ls_reduce_op op, int root)
{
    return run(group, (lsi_call){LSI_OP_REDUCE, dtype, op, root, count, LS_OK},
               send, recv);
}

ls_status ls_all_gather(ls_group *group, const void *send, void *recv,
                        size_t count, ls_dtype dtype)
{
    return run(group,
               (lsi_call){LSI_OP_ALL_GATHER, dtype, LS_SUM, 0, count, LS_OK},
               send, recv);
}

ls_status ls_reduce_scatter(ls_group *group, const void *send, void *recv,
                            size_t count, ls_dtype dtype, ls_reduce_op op)
{
    return run(group,
               (lsi_call){LSI_OP_REDUCE_SCATTER, dtype, op, 0, count, LS_OK},
               send, recv);
}

ls_status ls_gather(ls_group *group, const void *send, void *recv, size_t count,
                    ls_dtype dtype, int root)
{
    return run(group,
               (lsi_call){LSI_OP_GATHER, dtype, LS_SUM, root, count, LS_OK},
               send, recv);
}

ls_status ls_scatter(ls_group *group, const void *send, void *recv,
                     size_t count, ls_dtype dtype, int root)
{
    return run(group,
               (lsi_call){LSI_OP_SCATTER, dtype, LS_SUM, root, count, LS_OK},
               send, recv);
}

ls_status ls_all_to_all(ls_group *group, const void *send, void *recv,
                        size_t count, ls_dtype dtype)
{
    return run(group,
               (lsi_call){LSI_OP_ALL_TO_ALL, dtype, LS_SUM, 0, count, LS_OK},
               send, recv);
}

/* ---- that return a request ---------------------------------------------- */

ls_status ls_ibarrier(ls_group *group, ls_request **request)
{
    return lsi_request_start(group, (lsi_call){.operation = LSI_OP_BARRIER},
                             NULL, NULL, request);
}

ls_status ls_ibroadcast(ls_group *group, void *data, size_t count,
                        ls_dtype dtype, int root, ls_request **request)
{
    return lsi_request_start(
        group, (lsi_call){LSI_OP_BROADCAST, dtype, LS_SUM, root, count, LS_OK},
        data, data, request);
}

ls_status ls_iall_reduce(ls_group *group, const void *send, void *recv,
                         size_t count, ls_dtype dtype, ls_reduce_op op,
                         ls_request **request)
{
    return lsi_request_start(
        group, (lsi_call){LSI_OP_ALL_REDUCE, dtype, op, 0, count, LS_OK}, send,
        recv, request);
}

ls_status ls_ireduce(ls_group *group, const void *send, void *recv,
                     size_t count, ls_dtype dtype, ls_reduce_op op, int root,
                     ls_request **request)
{
    return lsi_request_start(
        group, (lsi_call){LSI_OP_REDUCE, dtype, op, root, count, LS_OK}, send,
        recv, request);
}

ls_status ls_iall_gather(ls_group *group, const void *send, void *recv,
                         size_t count, ls_dtype dtype, ls_request **request)
{
    return lsi_request_start(
        group, (lsi_call){LSI_OP_ALL_GATHER, dtype, LS_SUM, 0, count, LS_OK},
        send, recv, request);
}

ls_status ls_ireduce_scatter(ls_group *group, const void *send, void *recv,
                             size_t count, ls_dtype dtype, ls_reduce_op op,
                             ls_request **request)
{
    return lsi_request_start(
        group, (lsi_call){LSI_OP_REDUCE_SCATTER, dtype, op, 0, count, LS_OK},
        send, recv, request);
}

ls_status ls_igather(ls_group *group, const void *send, void *recv,
                     size_t count, ls_dtype dtype, int root,
                     ls_request **request)
{
    return lsi_request_start(
        group, (lsi_call){LSI_OP_GATHER, dtype, LS_SUM, root, count, LS_OK},
        send, recv, request);
}

ls_status ls_iscatter(ls_group *group, const void *send, void *recv,
                      size_t count, ls_dtype dtype, int root,
                      ls_request **request)
{
    return lsi_request_start(
        group, (lsi_call){LSI_OP_SCATTER, dtype, LS_SUM, root, count, LS_OK},
        send, recv, request);
}

ls_status ls_iall_to_all(ls_group *group, const void *send, void *recv,
                         size_t count, ls_dtype dtype, ls_request **request)
{
    return lsi_request_start(
        group, (lsi_call){LSI_OP_ALL_TO_ALL, dtype, LS_SUM, 0, count, LS_OK},
        send, recv, request);
}
