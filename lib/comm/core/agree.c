#include "comm/core/agree.h"

#include <assert.h>
#include <stdio.h>

#include "base/error.h"
#include "comm/core/collective.h"
#include "comm/core/wait.h"

ls_status lsi_refuse(ls_group *group, const lsi_call *call, ls_status status)
{
    /*
     * A collective ahead in the queue may fail, too, and record another reason.
     */
    char reason[LSI_REASON_BYTES];
    lsi_collective *op = &group->call;
    assert(status != LS_OK);
    snprintf(reason, sizeof(reason), "%s", ls_last_error());
    op->group = group;
    op->call = *call;
    op->call.refusal = status;
    op->send = op->recv = NULL; /* left by the call before */
    op->block = 0;
    op->reason = reason;
    return lsi_collective_complete(op);
}

ls_status lsi_exchange(ls_group *group, const lsi_call *call, const void *send,
                       size_t bytes, void *recv)
{
    lsi_collective *op = &group->call;
    assert(bytes <= LSI_FLAT_BYTES);
    LS_TRY(lsi_collective_prepare(op, group, call, send, recv));
    op->block = bytes;
    return lsi_collective_complete(op);
}

ls_status lsi_agree(ls_group *group, const lsi_call *call, ls_status status)
{
    if (status != LS_OK)
        return lsi_refuse(group, call, status);
    return lsi_exchange(group, call, NULL, 0, NULL);
}

ls_status lsi_agree_to_plan(ls_group *group, ls_status status)
{
    const lsi_call plan = {.operation = LSI_OP_PLAN};
    return group == NULL ? status : lsi_agree(group, &plan, status);
}
