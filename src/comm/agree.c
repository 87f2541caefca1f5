#include "comm/agree.h"

#include <stdio.h>

#include "base/error.h"
#include "comm/collective.h"
#include "comm/engine.h"

enum { REASON_BYTES = 512, CALL_BYTES = 128 };

ls_status lsi_refuse(ls_group *group, const lsi_call *call, ls_status status)
{
    /* What is ahead in the queue may fail, too, and record its own reason. */
    char reason[REASON_BYTES];
    lsi_collective *op = &group->call;
    snprintf(reason, sizeof(reason), "%s", ls_last_error());
    op->group = group;
    op->call = *call;
    op->call.refusal = status;
    op->send = op->recv = NULL; /* of the call before */
    op->block = 0;
    op->reason = reason;
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

void lsi_publish_refusal(const lsi_collective *op, lsi_cell *cell)
{
    snprintf((char *)cell->payload, REASON_BYTES, "%s", op->reason);
    cell->bytes = REASON_BYTES;
}

ls_status lsi_report_refusal(const lsi_collective *op)
{
    char name[CALL_BYTES];
    const int own = op->group->rank;
    const int rank = op->call.refusal != LS_OK ? own : op->refuser;
    const lsi_cell *cell = lsi_cell_of(op->group, op->sequence, rank);
    const char *reason = (const char *)cell->payload;
    const lsi_call call =
        lsi_fingerprint_call((lsi_fingerprint){cell->what, cell->count});
    if (rank == own)
        return lsi_fail(call.refusal, "%s", reason);
    return lsi_fail(call.refusal, "rank %d cannot take part in %s, #%llu: %s",
                    rank, lsi_call_text(&op->call, name, sizeof(name)),
                    (unsigned long long)op->sequence, reason);
}
