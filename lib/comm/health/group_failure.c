/*
 * Why a group has failed, in numbers for programs. failure.c writes the
 * sentence; both name the same ranks.
 */
#include <assert.h>
#include <stdio.h>

#include "base/structs.h"
#include "comm/state/forks.h"
#include "comm/state/state.h"

static_assert(sizeof(((ls_failure *)0)->host) >= LSI_HOST_BYTES,
              "a host's name fits");

static void set_ranks(const lsi_failure_record *failure, ls_failure *out)
{
    out->status = (ls_status)failure->status;
    out->rank = failure->rank_a;
    out->other_rank = failure->rank_b;
    switch (out->status) {
    case LS_ERR_PEER_DEAD:
    case LS_ERR_ABORTED:
        out->other_rank = -1;
        break;
    case LS_ERR_TIMEOUT: /* rank_a waits for itself if it knows no better */
        out->rank = failure->rank_b != failure->rank_a ? failure->rank_b : -1;
        out->other_rank = failure->rank_a;
        break;
    case LS_ERR_FORMAT: /* of a message between nodes */
        out->status = LS_ERR_SYSTEM;
        break;
    default:
        break;
    }
}

/* The call of a rank, if that rank has come to the collective `sequence`. */
static bool find_call(const ls_group *group, int rank, uint64_t sequence,
                      lsi_call *out)
{
    const lsi_cell *cell = lsi_cell_of(group, sequence, rank);
    if (atomic_load(&cell->stamp) >> LSI_PHASE_BITS != sequence)
        return false;
    *out = lsi_fingerprint_call((lsi_fingerprint){cell->what, cell->count});
    return true;
}

/*
 * The rank that failed the group records the number of its next collective. If
 * no rank has come to that one, it waited for a message.
 */
static void set_call(const ls_group *group, const lsi_failure_record *failure,
                     ls_failure *out)
{
    lsi_call call;
    bool found = failure->status == LS_ERR_MISMATCH;
    if (found)
        call = lsi_fingerprint_call(
            (lsi_fingerprint){failure->what_a, failure->count_a});
    for (int r = 0; r < group->size && !found && failure->sequence != 0; r++)
        found = find_call(group, r, failure->sequence, &call);
    out->operation = found ? lsi_operation_name(call.operation) : "";
    out->sequence = found ? failure->sequence : 0;
}

bool ls_group_failure(const ls_group *group, ls_failure *out)
{
    ls_failure found = {.rank = -1};
    if (group == NULL || out == NULL || lsi_is_inherited(group))
        return false;
    const lsi_failure_record *const failure = lsi_failure_of(group);
    if (failure == NULL)
        return false;
    set_ranks(failure, &found);
    set_call(group, failure, &found);
    if (found.rank >= 0) {
        const lsi_member *member = lsi_member_of(group, found.rank);
        snprintf(found.host, sizeof(found.host), "%s", member->host);
        found.pid = member->pid;
    }
    return LSI_STRUCT_WRITE(out, &found, ls_failure, host) == LS_OK;
}
