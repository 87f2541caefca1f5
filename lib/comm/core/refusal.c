#include "comm/core/refusal.h"

#include <assert.h>
#include <stdio.h>

#include "base/error.h"

enum { CALL_BYTES = 128 };

void lsi_publish_refusal(const lsi_collective *op, lsi_cell *cell)
{
    assert(op->call.refusal != LS_OK);
    snprintf((char *)cell->payload, LSI_REASON_BYTES, "%s", op->reason);
    cell->bytes = LSI_REASON_BYTES;
}

ls_status lsi_report_refusal(const lsi_collective *op)
{
    char name[CALL_BYTES];
    const int own = op->group->rank;
    const int rank = op->call.refusal != LS_OK ? own : op->refuser;
    assert(rank >= 0 && op->phase == 1);
    const lsi_cell *cell = lsi_cell_of(op->group, op->sequence, rank);
    const char *reason = (const char *)cell->payload;
    const lsi_call call =
        lsi_fingerprint_call((lsi_fingerprint){cell->what, cell->count});
    if (rank == own)
        return lsi_fail(call.refusal, "%s", reason);
    return lsi_fail(call.refusal, "rank %d cannot take part in %s, #%llu: %.*s",
                    rank, lsi_call_text(&op->call, name, sizeof(name)),
                    (unsigned long long)op->sequence, LSI_REASON_BYTES - 1,
                    reason);
}
