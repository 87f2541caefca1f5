/*
 * A rank that fails the group writes the reason into its own member, and then
 * its number into the header, where only the first number stays. So a reader of
 * the number finds the whole reason, however slow its writer was. The reader
 * reports the reason from its own point of view.
 */
#include "comm/health/failure.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "comm/health/awaited.h"
#include "comm/health/dump.h"
#include "comm/health/sigterm.h"
#include "comm/state/bell.h"
#include "comm/state/channels.h"
#include "comm/state/forks.h"

enum { TABLE_BYTES = 640, MORE_BYTES = 32, CALL_BYTES = 128 };

/* Whether this is the first on the node. */
static bool note_here(ls_group *group, const lsi_failure_record *failure)
{
    uint32_t nobody = 0;
    if (lsi_has_failed(group))
        return false; /* by this rank itself, perhaps: others read why */
    lsi_member_of(group, group->rank)->failure = *failure;
    /* Releases the reason. */
    if (!atomic_compare_exchange_strong(&group->memory.header->failed, &nobody,
                                        (uint32_t)group->rank + 1))
        return false;
    lsi_wake_all(group);
    return true;
}

/* Not of a rank that has closed the group, or broken a rule. */
static bool is_death(const ls_group *group, const lsi_failure_record *failure)
{
    const lsi_member *member = lsi_member_of(group, failure->rank_a);
    return failure->status == LS_ERR_PEER_DEAD &&
           atomic_load(&member->presence) != LSI_LEFT;
}

/*
 * A death is that of a rank of the original group, too. This rank may call that
 * one next, to clean up, while others wait there for the dead rank: they would
 * blame this rank for calling something else.
 */
static bool note(ls_group *group, const lsi_failure_record *failure)
{
    const lsi_failure_record death = {.status = failure->status,
                                      .rank_a = failure->rank_a};
    const bool first = note_here(group, failure);
    if (first && group->dup_of != NULL && is_death(group, failure))
        (void)note(group->dup_of, &death);
    return first;
}

void lsi_post_failure(ls_group *group, const lsi_failure_record *failure)
{
    assert(failure->status != LS_OK);
    if (note(group, failure))
        lsi_channels_announce_failure(group, failure);
}

void lsi_accept_failure(ls_group *group, const lsi_failure_record *failure)
{
    assert(failure->rank_a >= 0 && failure->rank_a < group->size);
    (void)note(group, failure);
}

void ls_group_abort(ls_group *group)
{
    uint32_t nobody = 0;
    if (group == NULL)
        return;
    if (lsi_is_inherited(group))
        return;
    const uint32_t here = ((uint32_t)group->rank + 1) | LSI_ABORTED;
    if (atomic_compare_exchange_strong(&group->memory.header->failed, &nobody,
                                       here))
        lsi_wake_all(group);
}

/* ---- where a rank is ----------------------------------------------------- */

static void waiting_text(const ls_group *group, int rank, char *text,
                         size_t bytes)
{
    const lsi_member *member = lsi_member_of(group, rank);
    const uint64_t word = atomic_load(&member->waiting_for);
    const uint32_t awaits = atomic_load(&member->awaits);
    text[0] = '\0';
    if (word == 0 && awaits != 0)
        snprintf(text, bytes, ", waiting for rank %d", (int)awaits - 1);
    else if (word != 0)
        snprintf(text, bytes, ", waiting to %s rank %d",
                 word & 1 ? "receive from" : "send to", (int)(word >> 1) - 1);
}

/*
 * Appends "rank 2: in all_reduce of ... (#7)" if there is room for it. Returns
 * the new length.
 */
static size_t append_where(const ls_group *group, int rank, uint64_t sequence,
                           char *text, size_t used)
{
    const lsi_member *member = lsi_member_of(group, rank);
    const lsi_cell *cell = lsi_cell_of(group, sequence, rank);
    const uint64_t stamp = atomic_load(&cell->stamp);
    const bool hosts = lsi_spans_nodes(group);
    char what[CALL_BYTES] = "outside", waiting[64];
    if (sequence != 0 && stamp >> LSI_PHASE_BITS == sequence) {
        const lsi_call call =
            lsi_fingerprint_call((lsi_fingerprint){cell->what, cell->count});
        char name[CALL_BYTES - 32];
        snprintf(what, sizeof(what), "in #%llu %s",
                 (unsigned long long)sequence,
                 lsi_call_text(&call, name, sizeof(name)));
    } else {
        snprintf(what, sizeof(what), "has completed #%llu",
                 (unsigned long long)atomic_load(&member->completed));
    }
    waiting_text(group, rank, waiting, sizeof(waiting));
    const int length = snprintf(
        text + used, TABLE_BYTES - MORE_BYTES - used,
        "\n  rank %d (%s%spid %d): %s%s%s", rank, hosts ? member->host : "",
        hosts ? ", " : "", (int)member->pid, what, waiting,
        atomic_load(&member->presence) == LSI_LEFT ? ", has left" : "");
    if (length > 0 && (size_t)length < TABLE_BYTES - MORE_BYTES - used)
        return used + (size_t)length;
    text[used] = '\0';
    return used;
}

/* One line per rank, missing ranks first, as far as the lines fit. */
static void where_table(const ls_group *group, uint64_t sequence, char *text)
{
    size_t used = 0;
    int shown = 0;
    bool fits = true;
    text[0] = '\0';
    for (int behind = 1; behind >= 0; behind--)
        for (int r = 0; r < group->size && fits; r++) {
            if (lsi_is_behind(group, r) != (behind == 1))
                continue;
            const size_t now = append_where(group, r, sequence, text, used);
            fits = now != used;
            shown += fits;
            used = now;
        }
    if (!fits)
        snprintf(text + used, TABLE_BYTES - used, "\n  and %d more",
                 group->size - shown);
}

/* ---- reporting ----------------------------------------------------------- */

/* The call in which this rank is: "in all_reduce of 10 f32 (sum), #7". */
static void own_text(const ls_group *group, char *text, size_t bytes)
{
    char name[CALL_BYTES];
    if (group->queue.first == NULL)
        snprintf(text, bytes, "after collective #%llu",
                 (unsigned long long)group->queue.completed);
    else
        snprintf(text, bytes, "in %s, #%llu",
                 lsi_call_text(&group->queue.first->call, name, sizeof(name)),
                 (unsigned long long)group->queue.first->sequence);
}

enum { MEMBER_BYTES = LSI_HOST_BYTES + 64 };

/* "rank 2 (host h1, pid 19)"; without host before all know theirs. */
static const char *member_text(const ls_group *group, int rank,
                               char text[MEMBER_BYTES])
{
    const lsi_member *member = lsi_member_of(group, rank);
    if (member->host[0] == '\0')
        snprintf(text, MEMBER_BYTES, "rank %d", rank);
    else
        snprintf(text, MEMBER_BYTES, "rank %d (host %s, pid %d)", rank,
                 member->host, (int)member->pid);
    return text;
}

static ls_status report_dead(const ls_group *group,
                             const lsi_failure_record *failure, const char *own)
{
    const int rank = failure->rank_a;
    const lsi_member *member = lsi_member_of(group, rank);
    const bool left = atomic_load(&member->presence) == LSI_LEFT;
    char text[MEMBER_BYTES];
    return lsi_fail(LS_ERR_PEER_DEAD, "%s %s; this is rank %d, %s",
                    member_text(group, rank, text),
                    left ? "has closed the group" : "has died", group->rank,
                    own);
}

static ls_status report_abort(const ls_group *group,
                              const lsi_failure_record *failure,
                              const char *own)
{
    const int rank = failure->rank_a;
    char text[MEMBER_BYTES];
    if (rank == group->rank)
        return lsi_fail(LS_ERR_ABORTED,
                        "this rank, %d, has aborted the group, %s", rank, own);
    return lsi_fail(LS_ERR_ABORTED,
                    "%s has aborted the group; this is rank %d, %s",
                    member_text(group, rank, text), group->rank, own);
}

/* For the collectives in which ranks have different counts. */
static ls_status report_counts(const lsi_failure_record *failure,
                               const lsi_call *call)
{
    const int of = (int)failure->counted - 1;
    char what[CALL_BYTES];
    snprintf(what, sizeof(what), "ranks disagree about call #%llu, %s of %s",
             (unsigned long long)failure->sequence,
             lsi_operation_name(call->operation), ls_dtype_name(call->dtype));
    if (call->operation == LSI_OP_ALL_TO_ALLV)
        return lsi_fail(LS_ERR_MISMATCH,
                        "%s (counts differ): rank %d sends %llu elements to "
                        "rank %d, which expects %llu",
                        what, failure->rank_a,
                        (unsigned long long)failure->count_a, failure->rank_b,
                        (unsigned long long)failure->count_b);
    return lsi_fail(LS_ERR_MISMATCH,
                    "%s (counts differ): the count for rank %d is %llu on rank "
                    "%d, but %llu on rank %d",
                    what, of, (unsigned long long)failure->count_a,
                    failure->rank_a, (unsigned long long)failure->count_b,
                    failure->rank_b);
}

static ls_status report_mismatch(const lsi_failure_record *failure)
{
    char text_a[CALL_BYTES], text_b[CALL_BYTES];
    const lsi_call a = lsi_fingerprint_call(
        (lsi_fingerprint){failure->what_a, failure->count_a});
    const lsi_call b = lsi_fingerprint_call(
        (lsi_fingerprint){failure->what_b, failure->count_b});
    if (failure->counted != 0)
        return report_counts(failure, &a);
    char what[32] = "a message"; /* these have no number */
    if (failure->sequence != 0)
        snprintf(what, sizeof(what), "call #%llu",
                 (unsigned long long)failure->sequence);
    const char *const differs = lsi_call_difference(&a, &b);
    lsi_call_text(&a, text_a, sizeof(text_a));
    lsi_call_text(&b, text_b, sizeof(text_b));
    if (strcmp(text_a, text_b) == 0)
        return lsi_fail(LS_ERR_MISMATCH,
                        "ranks disagree about %s (%s differs): ranks %d and %d "
                        "are both in %s",
                        what, differs, failure->rank_a, failure->rank_b,
                        text_a);
    return lsi_fail(LS_ERR_MISMATCH,
                    "ranks disagree about %s (%s differs): rank %d is in %s, "
                    "rank %d in %s",
                    what, differs, failure->rank_a, text_a, failure->rank_b,
                    text_b);
}

static ls_status report_late(const ls_group *group,
                             const lsi_failure_record *failure, const char *own)
{
    char table[TABLE_BYTES], text[MEMBER_BYTES], awaited[MEMBER_BYTES + 8] = "";
    if (failure->rank_b != failure->rank_a)
        snprintf(awaited, sizeof(awaited), " for %s",
                 member_text(group, failure->rank_b, text));
    where_table(group, failure->sequence, table);
    return lsi_fail(LS_ERR_TIMEOUT,
                    "rank %d %s%s; this is rank %d, %s. State of the ranks:%s",
                    failure->rank_a,
                    failure->got_sigterm ? "received SIGTERM while waiting"
                                         : "gave up waiting",
                    awaited, group->rank, own, table);
}

/*
 * For a rank that has no memory to keep an early message, and so cannot receive
 * the messages queued after it.
 */
static ls_status report_full(const ls_group *group,
                             const lsi_failure_record *failure, const char *own)
{
    char text[MEMBER_BYTES];
    return lsi_fail((ls_status)failure->status,
                    "%s had no memory to store a message of %llu bytes from "
                    "rank %d until a receive is posted. Post receives earlier, "
                    "or send fewer bytes at a time; this is rank %d, %s",
                    member_text(group, failure->rank_a, text),
                    (unsigned long long)failure->count_a, failure->rank_b,
                    group->rank, own);
}

static ls_status report(ls_group *group)
{
    char own[CALL_BYTES + 64];
    own_text(group, own, sizeof(own));
    const lsi_failure_record *failure = lsi_failure_of(group);
    assert(failure != NULL);
    switch ((ls_status)failure->status) {
    case LS_ERR_PEER_DEAD:
        return report_dead(group, failure, own);
    case LS_ERR_ABORTED:
        return report_abort(group, failure, own);
    case LS_ERR_MISMATCH:
        return report_mismatch(failure);
    case LS_ERR_MEMORY:
    case LS_ERR_BUDGET:
        return report_full(group, failure, own);
    case LS_ERR_FORMAT:
        return lsi_fail(LS_ERR_SYSTEM,
                        "rank %d received a damaged message from rank %d over "
                        "the network; this is rank %d, %s",
                        failure->rank_b, failure->rank_a, group->rank, own);
    case LS_ERR_SYSTEM:
        return lsi_fail(LS_ERR_SYSTEM,
                        "rank %d could not read the memory of rank %d; this is "
                        "rank %d, %s",
                        failure->rank_b, failure->rank_a, group->rank, own);
    default:
        return report_late(group, failure, own);
    }
}

ls_status lsi_report_failure(ls_group *group)
{
    if (lsi_is_inherited(group))
        return lsi_refuse_inherited(group);
    const ls_status status = report(group);
    if (group->failed)
        return status;
    group->failed = true;
    /* An abort may have been called where it could not reach other nodes. */
    const lsi_failure_record *const failure = lsi_failure_of(group);
    if (failure->status == LS_ERR_ABORTED && failure->rank_a == group->rank)
        lsi_channels_announce_failure(group, failure);
    lsi_channels_abandon(group);
    lsi_dump_failure(group, ls_last_error());
    lsi_sigterm_reported();
    return report(group); /* again: writing may have set another error */
}

int lsi_find_dead(const ls_group *group)
{
    const lsi_failure_record *failure = lsi_failure_of(group);
    if (failure != NULL && failure->status == LS_ERR_PEER_DEAD)
        return failure->rank_a;
    for (int r = 0; r < group->size; r++) {
        const lsi_member *member = lsi_member_of(group, r);
        if (atomic_load(&member->presence) == LSI_PRESENT &&
            !lsi_channel_to(group, r)->alive(group, r))
            return r;
    }
    return -1;
}
