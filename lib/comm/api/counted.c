/*
 * The public collectives in which ranks have counts of their own.
 */
#include "base/error.h"
#include "comm/api/check.h"
#include "comm/api/request.h"
#include "comm/core/agree.h"
#include "comm/core/collective.h"
#include "comm/core/on_done.h"
#include "comm/core/wait.h"

static ls_status run(ls_group *group, lsi_call call,
                     const lsi_counted_buffers *buffers)
{
    LS_TRY(lsi_check_group(group, lsi_operation_name(call.operation)));
    ls_status status = lsi_check_counted(group, &call, buffers);
    if (status == LS_OK)
        status = lsi_counts_note(&group->call.counted, group, &buffers->counts,
                                 &call);
    if (status == LS_OK)
        status = lsi_collective_prepare(&group->call, group, &call,
                                        buffers->send, buffers->recv);
    if (status != LS_OK)
        return lsi_refuse(group, &call, status);
    group->counters->collectives++;
    status = lsi_collective_complete(&group->call);
    lsi_on_done_deliver(group);
    return status;
}

/* ---- the calls ----------------------------------------------------------- */

static lsi_call call_of(lsi_operation operation, ls_dtype dtype,
                        ls_reduce_op op)
{
    return (lsi_call){operation, dtype, op, 0, 0, LS_OK};
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
    return run(group, call_of(LSI_OP_ALL_GATHERV, dtype, LS_SUM), &b);
}

ls_status ls_reduce_scatterv(ls_group *group, const void *send, void *recv,
                             const size_t *counts, ls_dtype dtype,
                             ls_reduce_op op)
{
    const lsi_counted_buffers b = scattered(send, recv, counts);
    return run(group, call_of(LSI_OP_REDUCE_SCATTERV, dtype, op), &b);
}

ls_status ls_all_to_allv(ls_group *group, const void *send,
                         const size_t *send_counts, void *recv,
                         const size_t *recv_counts, ls_dtype dtype)
{
    const lsi_counted_buffers b = {
        send, recv, {send_counts, recv_counts}, NULL};
    return run(group, call_of(LSI_OP_ALL_TO_ALLV, dtype, LS_SUM), &b);
}

/* ---- the same without waiting -------------------------------------------- */

ls_status ls_iall_gatherv(ls_group *group, const void *send, size_t count,
                          void *recv, const size_t *counts, ls_dtype dtype,
                          ls_request **request)
{
    const lsi_counted_buffers b = gathered(send, &count, recv, counts);
    return lsi_request_start_counted(
        group, call_of(LSI_OP_ALL_GATHERV, dtype, LS_SUM), &b, request);
}

ls_status ls_ireduce_scatterv(ls_group *group, const void *send, void *recv,
                              const size_t *counts, ls_dtype dtype,
                              ls_reduce_op op, ls_request **request)
{
    const lsi_counted_buffers b = scattered(send, recv, counts);
    return lsi_request_start_counted(
        group, call_of(LSI_OP_REDUCE_SCATTERV, dtype, op), &b, request);
}

ls_status ls_iall_to_allv(ls_group *group, const void *send,
                          const size_t *send_counts, void *recv,
                          const size_t *recv_counts, ls_dtype dtype,
                          ls_request **request)
{
    const lsi_counted_buffers b = {
        send, recv, {send_counts, recv_counts}, NULL};
    return lsi_request_start_counted(
        group, call_of(LSI_OP_ALL_TO_ALLV, dtype, LS_SUM), &b, request);
}
