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

static lsi_call moves(lsi_operation operation, ls_dtype dtype, int root,
                      size_t count)
{
    return (lsi_call){operation, dtype, LS_REDUCE_SUM, root, count, LS_OK};
}

static lsi_call reduces(lsi_operation operation, ls_dtype dtype,
                        ls_reduce_op op, size_t count)
{
    return (lsi_call){operation, dtype, op, 0, count, LS_OK};
}

/* Completes a collective; `status` is the result of its checks. */
static ls_status complete(ls_group *group, const lsi_call *call,
                          ls_status status, const void *send, void *recv)
{
    if (status == LS_OK)
        status = lsi_collective_prepare(&group->call, group, call, send, recv);
    if (status != LS_OK)
        return lsi_refuse(group, call, status);
    group->counters->collectives++;
    status = lsi_collective_complete(&group->call);
    lsi_on_done_deliver(group);
    return status;
}

/*
 * A call with wrong arguments or without memory is refused, so the other ranks
 * do not wait for it.
 */
static ls_status run_collective(ls_group *group, const lsi_call *call,
                                const void *send, void *recv)
{
    LS_TRY(lsi_check_group(group, lsi_operation_name(call->operation)));
    const ls_status status = lsi_check_buffers(group, call, send, recv);
    return complete(group, call, status, lsi_sent_from(group, call, send),
                    lsi_received_at(group, call, recv));
}

/* ---- blocking calls ----------------------------------------------------- */

ls_status ls_barrier(ls_group *group)
{
    const lsi_call call = {.operation = LSI_OP_BARRIER};
    return run_collective(group, &call, NULL, NULL);
}

ls_status ls_broadcast(ls_group *group, void *data, size_t count,
                       ls_dtype dtype, int root)
{
    const lsi_call call = moves(LSI_OP_BROADCAST, dtype, root, count);
    return run_collective(group, &call, data, data);
}

ls_status ls_all_reduce(ls_group *group, const void *send, void *recv,
                        size_t count, ls_dtype dtype, ls_reduce_op op)
{
    const lsi_call call = reduces(LSI_OP_ALL_REDUCE, dtype, op, count);
    return run_collective(group, &call, send, recv);
}

ls_status ls_reduce(ls_group *group, const void *send, void *recv, size_t count,
                    ls_dtype dtype, ls_reduce_op op, int root)
{
    const lsi_call call = {LSI_OP_REDUCE, dtype, op, root, count, LS_OK};
    return run_collective(group, &call, send, recv);
}

ls_status ls_all_gather(ls_group *group, const void *send, void *recv,
                        size_t count, ls_dtype dtype)
{
    const lsi_call call = moves(LSI_OP_ALL_GATHER, dtype, 0, count);
    return run_collective(group, &call, send, recv);
}

ls_status ls_reduce_scatter(ls_group *group, const void *send, void *recv,
                            size_t count, ls_dtype dtype, ls_reduce_op op)
{
    const lsi_call call = reduces(LSI_OP_REDUCE_SCATTER, dtype, op, count);
    return run_collective(group, &call, send, recv);
}

ls_status ls_gather(ls_group *group, const void *send, void *recv, size_t count,
                    ls_dtype dtype, int root)
{
    const lsi_call call = moves(LSI_OP_GATHER, dtype, root, count);
    return run_collective(group, &call, send, recv);
}

ls_status ls_scatter(ls_group *group, const void *send, void *recv,
                     size_t count, ls_dtype dtype, int root)
{
    const lsi_call call = moves(LSI_OP_SCATTER, dtype, root, count);
    return run_collective(group, &call, send, recv);
}

ls_status ls_all_to_all(ls_group *group, const void *send, void *recv,
                        size_t count, ls_dtype dtype)
{
    const lsi_call call = moves(LSI_OP_ALL_TO_ALL, dtype, 0, count);
    return run_collective(group, &call, send, recv);
}

/* ---- calls that return a request ---------------------------------------- */

ls_status ls_ibarrier(ls_group *group, ls_request **request)
{
    return lsi_request_start(group, (lsi_call){.operation = LSI_OP_BARRIER},
                             NULL, NULL, request);
}

ls_status ls_ibroadcast(ls_group *group, void *data, size_t count,
                        ls_dtype dtype, int root, ls_request **request)
{
    return lsi_request_start(group, moves(LSI_OP_BROADCAST, dtype, root, count),
                             data, data, request);
}

ls_status ls_iall_reduce(ls_group *group, const void *send, void *recv,
                         size_t count, ls_dtype dtype, ls_reduce_op op,
                         ls_request **request)
{
    return lsi_request_start(group,
                             reduces(LSI_OP_ALL_REDUCE, dtype, op, count), send,
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
    return lsi_request_start(group, moves(LSI_OP_ALL_GATHER, dtype, 0, count),
                             send, recv, request);
}

ls_status ls_ireduce_scatter(ls_group *group, const void *send, void *recv,
                             size_t count, ls_dtype dtype, ls_reduce_op op,
                             ls_request **request)
{
    return lsi_request_start(group,
                             reduces(LSI_OP_REDUCE_SCATTER, dtype, op, count),
                             send, recv, request);
}

ls_status ls_igather(ls_group *group, const void *send, void *recv,
                     size_t count, ls_dtype dtype, int root,
                     ls_request **request)
{
    return lsi_request_start(group, moves(LSI_OP_GATHER, dtype, root, count),
                             send, recv, request);
}

ls_status ls_iscatter(ls_group *group, const void *send, void *recv,
                      size_t count, ls_dtype dtype, int root,
                      ls_request **request)
{
    return lsi_request_start(group, moves(LSI_OP_SCATTER, dtype, root, count),
                             send, recv, request);
}

ls_status ls_iall_to_all(ls_group *group, const void *send, void *recv,
                         size_t count, ls_dtype dtype, ls_request **request)
{
    return lsi_request_start(group, moves(LSI_OP_ALL_TO_ALL, dtype, 0, count),
                             send, recv, request);
}

/* ---- a count for each rank ----------------------------------------------- */

static ls_status run_counted(ls_group *group, lsi_call call,
                             const lsi_counted_buffers *buffers)
{
    LS_TRY(lsi_check_group(group, lsi_operation_name(call.operation)));
    ls_status status = lsi_check_counted(group, &call, buffers);
    if (status == LS_OK)
        status = lsi_counts_note(&group->call.counted, group, &buffers->counts,
                                 &call);
    return complete(group, &call, status, buffers->send, buffers->recv);
}

static lsi_counted_buffers gathered(const void *send, const size_t *count,
                                    void *recv, const size_t *counts)
{
    return (lsi_counted_buffers){send, recv, {NULL, counts}, count};
}

static lsi_counted_buffers scattered(const void *send, void *recv,
                                     const size_t *counts)
{
    return (lsi_counted_buffers){send, recv, {counts, NULL}, NULL};
}

ls_status ls_all_gatherv(ls_group *group, const void *send, size_t count,
                         void *recv, const size_t *counts, ls_dtype dtype)
{
    const lsi_counted_buffers b = gathered(send, &count, recv, counts);
    return run_counted(group, moves(LSI_OP_ALL_GATHERV, dtype, 0, 0), &b);
}

ls_status ls_reduce_scatterv(ls_group *group, const void *send, void *recv,
                             const size_t *counts, ls_dtype dtype,
                             ls_reduce_op op)
{
    const lsi_counted_buffers b = scattered(send, recv, counts);
    return run_counted(group, reduces(LSI_OP_REDUCE_SCATTERV, dtype, op, 0),
                       &b);
}

ls_status ls_all_to_allv(ls_group *group, const void *send,
                         const size_t *send_counts, void *recv,
                         const size_t *recv_counts, ls_dtype dtype)
{
    const lsi_counted_buffers b = {
        send, recv, {send_counts, recv_counts}, NULL};
    return run_counted(group, moves(LSI_OP_ALL_TO_ALLV, dtype, 0, 0), &b);
}

ls_status ls_iall_gatherv(ls_group *group, const void *send, size_t count,
                          void *recv, const size_t *counts, ls_dtype dtype,
                          ls_request **request)
{
    const lsi_counted_buffers b = gathered(send, &count, recv, counts);
    return lsi_request_start_counted(
        group, moves(LSI_OP_ALL_GATHERV, dtype, 0, 0), &b, request);
}

ls_status ls_ireduce_scatterv(ls_group *group, const void *send, void *recv,
                              const size_t *counts, ls_dtype dtype,
                              ls_reduce_op op, ls_request **request)
{
    const lsi_counted_buffers b = scattered(send, recv, counts);
    return lsi_request_start_counted(
        group, reduces(LSI_OP_REDUCE_SCATTERV, dtype, op, 0), &b, request);
}

ls_status ls_iall_to_allv(ls_group *group, const void *send,
                          const size_t *send_counts, void *recv,
                          const size_t *recv_counts, ls_dtype dtype,
                          ls_request **request)
{
    const lsi_counted_buffers b = {
        send, recv, {send_counts, recv_counts}, NULL};
    return lsi_request_start_counted(
        group, moves(LSI_OP_ALL_TO_ALLV, dtype, 0, 0), &b, request);
}
