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

/* Counts of which one differs; `of` is the rank whose block it is. */
static ls_status fail_counts(lsi_collective *op, lsi_failure_record failure,
                             int of)
{
    const uint64_t what = op->print.what;
    failure.status = LS_ERR_MISMATCH;
    failure.sequence = op->sequence;
    failure.what_a = failure.what_b = what;
    failure.counted = of + 1;
    lsi_post_failure(op->group, &failure);
    return lsi_report_failure(op->group);
}

static uint64_t elements_of(const uint64_t *begin, int rank)
{
    return begin[rank + 1] - begin[rank];
}

/* Checks that the rank sends as many elements as this one expects. */
static ls_status check_exchange(lsi_collective *op, int rank)
{
    const int own = op->group->rank;
    const size_t *receives = op->counted.receives;
    const uint64_t sent = elements_of(lsi_cell_table(op, rank), own);
    const uint64_t expected = receives[rank + 1] - receives[rank];
    if (sent == expected)
        return LS_OK;
    return fail_counts(op,
                       (lsi_failure_record){.rank_a = rank,
                                            .rank_b = own,
                                            .count_a = sent,
                                            .count_b = expected},
                       own);
}

/* Finds the count that differs, once the hashes of the counts do. */
static ls_status find_count(lsi_collective *op, int rank)
{
    const uint64_t *theirs = lsi_cell_table(op, rank);
    const size_t *own = op->call.operation == LSI_OP_ALL_GATHERV
                            ? op->counted.receives
                            : op->counted.sends;
    int at = 0;
    while (at + 1 < op->group->size &&
           elements_of(theirs, at) == own[at + 1] - own[at])
        at++;
    return fail_counts(op,
                       (lsi_failure_record){.rank_a = op->group->rank,
                                            .rank_b = rank,
                                            .count_a = own[at + 1] - own[at],
                                            .count_b = elements_of(theirs, at)},
                       at);
}

/* Whether the calls differ in nothing but the counts. */
static bool differs_in_counts(const lsi_call *call, const lsi_cell *cell)
{
    const lsi_call theirs =
        lsi_fingerprint_call((lsi_fingerprint){cell->what, cell->count});
    return lsi_operation_has_counts(call->operation) &&
           theirs.operation == call->operation && theirs.dtype == call->dtype &&
           theirs.redop == call->redop;
}

ls_status lsi_check_call(lsi_collective *op, int rank)
{
    ls_group *group = op->group;
    const lsi_cell *cell = lsi_cell_of(group, op->sequence, rank);
    const lsi_fingerprint own = op->print;
    const bool exchange = op->call.operation == LSI_OP_ALL_TO_ALLV;
    if (cell->what == own.what && exchange && op->call.refusal == LS_OK)
        return check_exchange(op, rank);
    if (cell->what == own.what && cell->count == own.count)
        return LS_OK;
    if (is_refusal(op, cell, rank))
        return LS_OK;
    if (differs_in_counts(&op->call, cell))
        return find_count(op, rank);
    lsi_post_failure(group, &(lsi_failure_record){.status = LS_ERR_MISMATCH,
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
    lsi_post_failure(
        group, &(lsi_failure_record){.status = LS_ERR_MISMATCH,
                                     .rank_a = stream->peer,
                                     .rank_b = group->rank,
                                     .what_a = print_of(arrived, LSI_OP_SEND),
                                     .count_a = arrived->count,
                                     .what_b = print_of(own, LSI_OP_RECV),
                                     .count_b = own->count});
    return lsi_report_failure(group);
}
