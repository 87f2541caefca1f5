#include "comm/health/mismatch.h"

#include "comm/health/failure.h"

/* A rank that refuses a call may have other arguments, but no other call. */
static bool is_refusal(lsi_collective *op, const lsi_cell *cell, int rank)
{
    const lsi_call theirs =
        lsi_fingerprint_call((lsi_fingerprint){cell->what, cell->count});
    if (theirs.operation != op->call.operation)
        return false;
    if (theirs.refusal != LS_OK && (op->refuser < 0 || rank < op->refuser))
        op->refuser = rank;
    return theirs.refusal != LS_OK || op->call.refusal != LS_OK;
}

ls_status lsi_check_call(lsi_collective *op, int rank)
{
    ls_group *group = op->group;
    const lsi_cell *cell = lsi_cell_of(group, op->sequence, rank);
    const lsi_fingerprint own = lsi_fingerprint_of(&op->call);
    if (cell->what == own.what && cell->count == own.count)
        return LS_OK;
    if (is_refusal(op, cell, rank))
        return LS_OK;
    lsi_post_failure(group, &(lsi_failure){.status = LS_ERR_MISMATCH,
                                           .rank_a = group->rank,
                                           .rank_b = rank,
                                           .sequence = op->sequence,
                                           .what_a = own.what,
                                           .count_a = own.count,
                                           .what_b = cell->what,
                                           .count_b = cell->count});
    return lsi_report_failure(group);
}

static uint64_t print_of(const lsi_envelope *envelope, lsi_operation operation)
{
    const lsi_call call = {.operation = operation,
                           .dtype = (ls_dtype)envelope->dtype,
                           .count = envelope->count};
    return lsi_fingerprint_of(&call).what;
}

ls_status lsi_check_envelope(ls_group *group, const lsi_stream *stream,
                             const lsi_message *message,
                             const lsi_envelope *arrived)
{
    const lsi_envelope *own = &message->envelope;
    if (own->dtype == arrived->dtype && own->count == arrived->count)
        return LS_OK;
    lsi_post_failure(group,
                     &(lsi_failure){.status = LS_ERR_MISMATCH,
                                    .rank_a = stream->peer,
                                    .rank_b = group->rank,
                                    .what_a = print_of(arrived, LSI_OP_SEND),
                                    .count_a = arrived->count,
                                    .what_b = print_of(own, LSI_OP_RECV),
                                    .count_b = own->count});
    return lsi_report_failure(group);
}
