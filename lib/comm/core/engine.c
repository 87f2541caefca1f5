/*
 * The queue of collectives: entering, agreeing, running, leaving.
 */
#include "comm/core/engine.h"

#include <assert.h>
#include <stdio.h>

#include "base/cpu.h"
#include "base/error.h"
#include "comm/core/combine.h"
#include "comm/core/counts.h"
#include "comm/core/message.h"
#include "comm/core/paths.h"
#include "comm/health/failure.h"
#include "comm/health/mismatch.h"
#include "comm/health/recorder.h"
#include "comm/state/algorithm.h"
#include "comm/state/bell.h"
#include "comm/state/channels.h"
#include "comm/state/forks.h"
#include "observe/spans.h"

enum {
    CALL_BYTES = 128,
    FETCHED_BYTES = 1024, /* of a payload, at most; see fetch_next_cell */
    FEW_BYTES = 4 * LSI_LINE
};

bool lsi_all_completed(ls_group *group, uint64_t sequence)
{
    if (sequence <= group->queue.seen_by_all)
        return true;
    for (int r = 0; r < group->size; r++) {
        /*
         * Cells of other nodes' ranks are written only once they are free
         * (net/arrivals.c).
         */
        if (group->queue.seen[r] >= sequence || !lsi_shares_memory(group, r))
            continue;
        /* Acquires: the data that the rank has loaded may be overwritten. */
        const uint64_t completed =
            atomic_load(&lsi_member_of(group, r)->completed);
        assert(completed >= group->queue.seen[r]);
        group->queue.seen[r] = completed;
        if (group->queue.seen[r] < sequence) {
            group->queue.waits_completed = true;
            return false;
        }
    }
    group->queue.seen_by_all = sequence;
    return true;
}

/* Whether every rank's stamp in a collective's cells is at least `stamp`. */
static bool all_stamped(const ls_group *group, uint64_t sequence,
                        uint64_t stamp)
{
    for (int r = 0; r < group->size; r++)
        if (atomic_load(&lsi_cell_of(group, sequence, r)->stamp) < stamp)
            return false;
    return true;
}

void lsi_collective_publish(lsi_collective *op)
{
    ls_group *group = op->group;
    lsi_cell *own = lsi_cell_of(group, op->sequence, group->rank);
    const uint64_t stamp = lsi_stamp(op->sequence, ++op->phase);
    assert(op->state >= LSI_COLLECTIVE_ENTERED);
    assert(op->phase < (uint32_t)1 << LSI_PHASE_BITS);
    assert(atomic_load(&own->stamp) < stamp);
    op->cursor = 0;
    op->stamped = -1;
    group->activity++;
    /* Releases all stores of this rank in cells, windows and buffers. */
    atomic_store(&own->stamp, stamp);
    /* Only the last rank to arrive wakes the sleeping ones. */
    const bool in_tree = lsi_combines(group);
    if (in_tree && !lsi_combine(op, stamp))
        return;
    if (atomic_load(&group->memory.header->sleepers) != 0 &&
        (in_tree || all_stamped(group, op->sequence, stamp)))
        lsi_wake_all(group);
}

/* Compares a rank's call with this rank's, and notes what it has completed. */
static ls_status compare_with(lsi_collective *op, int rank,
                              const lsi_cell *cell)
{
    uint64_t *seen = &op->group->queue.seen[rank];
    if (*seen < cell->completed)
        *seen = cell->completed;
    if (cell->what == op->print.what && cell->count == op->print.count &&
        !lsi_operation_has_counts(op->call.operation))
        return LS_OK;
    LS_TRY(lsi_check_call(op, rank));
    lsi_counts_read(op, rank);
    return LS_OK;
}

/* Sets `alike` if the summary tells all that the cells of all ranks do. */
static void take_summary(lsi_collective *op, const lsi_summary *all)
{
    ls_group *group = op->group;
    op->alike = all->differ == 0 && all->what == op->print.what &&
                all->count == op->print.count &&
                op->call.operation != LSI_OP_ALL_TO_ALLV;
    op->able = all->able;
    if (op->alike && group->queue.seen_by_all < all->completed)
        group->queue.seen_by_all = all->completed;
}

static ls_status arrived_in_tree(lsi_collective *op)
{
    ls_group *group = op->group;
    const uint64_t stamp = lsi_stamp(op->sequence, op->phase);
    if (op->cursor == group->size)
        return LS_OK;
    const lsi_summary *all = lsi_combined(op, stamp);
    if (all == NULL)
        return LS_IN_PROGRESS;
    group->activity++;
    op->cursor = group->size;
    if (op->phase > 1)
        return LS_OK;
    take_summary(op, all);
    for (int r = 0; !op->alike && r < group->size; r++)
        LS_TRY(compare_with(op, r, lsi_cell_of(group, op->sequence, r)));
    return LS_OK;
}

/*
 * Without a tree each arrival moves the group. In one only the last does, so
 * long waits ask whether others have come: a timeout is time without progress.
 */
bool lsi_arrivals_move(ls_group *group)
{
    lsi_collective *op = group->queue.first;
    int stamped = 0;
    if (op == NULL || !lsi_combines(group) ||
        op->state < LSI_COLLECTIVE_ENTERED || op->cursor == group->size)
        return false;
    const uint64_t stamp = lsi_stamp(op->sequence, op->phase);
    for (int r = 0; r < group->size; r++)
        stamped +=
            atomic_load(&lsi_cell_of(group, op->sequence, r)->stamp) >= stamp;
    const bool moved = op->stamped >= 0 && stamped > op->stamped;
    op->stamped = stamped;
    group->activity += moved;
    return moved;
}

ls_status lsi_collective_arrived(lsi_collective *op)
{
    ls_group *group = op->group;
    const uint64_t stamp = lsi_stamp(op->sequence, op->phase);
    assert(op->phase >= 1 && op->cursor >= 0 && op->cursor <= group->size);
    if (lsi_combines(group))
        return arrived_in_tree(op);
    for (; op->cursor < group->size; op->cursor++) {
        const lsi_cell *cell = lsi_cell_of(group, op->sequence, op->cursor);
        /* Acquires the rank's stores before its stamp. */
        if (atomic_load(&cell->stamp) < stamp)
            return LS_IN_PROGRESS;
        group->activity++;
        if (op->phase == 1)
            LS_TRY(compare_with(op, op->cursor, cell));
    }
    return LS_OK;
}

/* ---- entering ------------------------------------------------------------ */

/*
 * Begins the first candidate that this rank can take part in, which all ranks
 * will run unless another rank rules it out. A rank that contributes no data
 * has nothing to begin, and rules out no candidate.
 */
static uint64_t begin_ahead(lsi_collective *op, uint64_t able)
{
    uint64_t begun = 0;
    const bool idle = op->sent == 0;
    for (int i = 0; i < LSI_CANDIDATES && op->candidates[i] != NULL; i++) {
        const lsi_algorithm *a = op->candidates[i];
        const bool sure = (a->needs & LSI_PATH_AHEAD) == 0;
        const uint64_t missing = a->needs & ~(able | LSI_PATH_AHEAD);
        if ((missing & LSI_PATH_NODE) != 0 || (!idle && missing != 0))
            continue;
        if (a->ahead != NULL && a->ahead(op))
            begun |= (uint64_t)LSI_PATH_AHEAD << i;
        if (!idle && (sure || begun != 0))
            break;
    }
    return begun;
}

static void publish_data(lsi_collective *op)
{
    lsi_cell *cell = lsi_cell_of(op->group, op->sequence, op->group->rank);
    if (!op->offers) {
        cell->bytes = op->sent;
        assert(cell->bytes <= LSI_FLAT_BYTES);
        lsi_pack(op);
        return;
    }
    lsi_offer offer;
    cell->bytes = LSI_OFFER_BYTES + lsi_cell_table_bytes(op);
    lsi_make_offer(op, &offer);
    lsi_counts_publish(op);
    offer.able |= begin_ahead(op, offer.able);
    *lsi_offer_of(op, op->group->rank) = offer; /* next to the stamp */
}

/* Writes why this rank cannot take part into its cell. */
static void publish_refusal(const lsi_collective *op, lsi_cell *cell)
{
    assert(op->call.refusal != LS_OK);
    snprintf((char *)cell->payload, LSI_REASON_BYTES, "%s", op->reason);
    cell->bytes = LSI_REASON_BYTES;
}

/* Publishes the arrival if the cell's last use is over for all ranks. */
static bool enter(lsi_collective *op)
{
    ls_group *group = op->group;
    assert(op->state == LSI_COLLECTIVE_QUEUED && op->phase == 0);
    if (op->sequence > LSI_CELLS &&
        !lsi_all_completed(group, op->sequence - LSI_CELLS))
        return false;
    lsi_cell *cell = lsi_cell_of(group, op->sequence, group->rank);
    if (op->call.refusal != LS_OK)
        publish_refusal(op, cell);
    else
        publish_data(op);
    /*
     * Written last, next to the stamp: a rank that polls the stamp takes this
     * cache line away.
     */
    cell->what = op->print.what;
    cell->count = op->print.count;
    cell->completed = group->queue.completed;
    group->queue.held[op->sequence % LSI_CELLS] = cell->bytes;
    op->state = LSI_COLLECTIVE_ENTERED;
    lsi_collective_publish(op);
    return true;
}

static void enter_all(ls_group *group)
{
    while (group->queue.entering != NULL && enter(group->queue.entering))
        group->queue.entering = group->queue.entering->next;
}

ls_status lsi_collective_submit(lsi_collective *op)
{
    ls_group *group = op->group;
    if (lsi_has_failed(group) || lsi_is_inherited(group))
        return lsi_report_failure(group);
    assert(op->state == LSI_COLLECTIVE_IDLE);
    op->print = lsi_fingerprint_of(&op->call);
    op->sent = op->call.refusal == LS_OK ? lsi_sent(op) : 0;
    op->sequence = ++group->queue.sequence;
    op->state = LSI_COLLECTIVE_QUEUED;
    op->algorithm = NULL;
    op->done = false;
    op->phase = 0;
    op->cursor = 0;
    op->alike = false;
    op->step = 0;
    op->refuser = -1;
    op->next = NULL;
    op->began = lsi_span_begin(); /* before other ranks can see it */
    op->arrived = 0;
    if (group->queue.first == NULL)
        group->queue.first = op;
    else
        group->queue.last->next = op;
    group->queue.last = op;
    if (group->queue.entering == NULL)
        group->queue.entering = op;
    enter_all(group);
    lsi_record_begin(op); /* while other ranks see the arrival */
    return LS_OK;
}

void lsi_collective_withdraw(lsi_collective *op)
{
    lsi_queue *const queue = &op->group->queue;
    lsi_collective *before = NULL;
    lsi_collective **link = &queue->first;
    while (*link != NULL && *link != op) {
        before = *link;
        link = &before->next;
    }
    if (*link == NULL)
        return;
    assert(lsi_has_failed(op->group) || lsi_is_inherited(op->group));
    *link = op->next;
    if (queue->last == op)
        queue->last = before;
    if (queue->entering == op)
        queue->entering = op->next;
}

/* ---- running ------------------------------------------------------------- */

static const char *needs_of(const lsi_algorithm *algorithm, uint64_t able)
{
    const uint64_t missing = algorithm->needs & ~able;
    if ((missing & LSI_PATH_NODES) != 0)
        return "ranks on several nodes";
    if ((missing & LSI_PATH_NODE) != 0)
        return "all ranks on one node";
    if ((algorithm->needs & LSI_PATH_AHEAD) != 0)
        return "less data: at most 32 KiB per rank and 256 KiB in total";
    return (algorithm->needs & LSI_PATH_COPY) != 0
               ? "a Linux kernel that lets ranks read each other's memory "
                 "(process_vm_readv), and a call that is not in place"
               : "buffers from ls_shared_alloc on every rank";
}

/*
 * The first candidate whose needs every rank has offered. All ranks see the
 * same offers and reach the same result.
 */
static ls_status agree_on_algorithm(lsi_collective *op)
{
    assert(op->phase == 1 && op->cursor == op->group->size);
    op->algorithm = op->candidates[0];
    assert(op->algorithm != NULL);
    if (!op->offers)
        return LS_OK;
    uint64_t able = op->alike ? op->able : UINT64_MAX;
    for (int r = 0; !op->alike && r < op->group->size; r++)
        able &= lsi_offer_of(op, r)->able;
    const uint64_t paths = able & (LSI_PATH_AHEAD - 1);
    for (int i = 0; i < LSI_CANDIDATES && op->candidates[i] != NULL; i++) {
        op->algorithm = op->candidates[i];
        const uint64_t ahead = able >> i & LSI_PATH_AHEAD;
        op->ahead = ahead != 0;
        if ((op->algorithm->needs & ~(paths | ahead)) == 0)
            return LS_OK;
    }
    return lsi_fail(LS_ERR_UNSUPPORTED, "%s with algorithm %s needs %s",
                    lsi_operation_name(op->call.operation), op->algorithm->name,
                    needs_of(op->algorithm, able));
}

/*
 * Takes back the lines of the next cell, which other ranks have read in its
 * last use, while the program computes. Programs repeat calls in short cycles,
 * so the cell will probably hold the same number of bytes again. A core can
 * have a few dozen lines in flight, so only the first ones are fetched.
 *
 * The line of the stamp is written last. While a rank writes many others, polls
 * of the stamp would take that line away again.
 */
static void fetch_next_cell(const ls_group *group)
{
    const uint64_t next = group->queue.sequence + 1;
    const lsi_cell *cell = lsi_cell_of(group, next, group->rank);
    const size_t held = group->queue.held[next % LSI_CELLS];
    const size_t most = held < FETCHED_BYTES ? held : FETCHED_BYTES;
    const size_t bytes = offsetof(lsi_cell, payload) + most;
    const size_t first = bytes <= FEW_BYTES ? 0 : LSI_LINE;
    for (size_t at = first; at < bytes; at += LSI_LINE)
        lsi_cpu_fetch_to_write((const unsigned char *)cell + at);
}

static void finish(lsi_collective *op, ls_status status)
{
    ls_group *group = op->group;
    assert(op == group->queue.first && op->state == LSI_COLLECTIVE_RUNNING);
    assert(op->sequence > group->queue.completed);
    op->state = LSI_COLLECTIVE_IDLE;
    op->done = true;
    op->status = status;
    if (status != LS_OK && op->failure != NULL)
        snprintf(op->failure, op->failure_bytes, "%s", ls_last_error());
    group->queue.completed = op->sequence;
    group->activity++;
    group->queue.first = op->next;
    lsi_record_end(op);
    /* Releases the cells: this rank has loaded all it needs from them. */
    atomic_store(&lsi_member_of(group, group->rank)->completed,
                 group->queue.completed);
    if (atomic_load(&group->memory.header->cell_waiters) != 0)
        lsi_wake_all(group);
    if (group->queue.first == NULL)
        fetch_next_cell(group);
}

/* Reports which rank refused and why, once all have arrived. */
static ls_status report_refusal(const lsi_collective *op)
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

static ls_status advance(lsi_collective *op)
{
    assert(op->state >= LSI_COLLECTIVE_ENTERED && !op->done);
    if (op->state == LSI_COLLECTIVE_ENTERED) {
        LS_TRY(lsi_collective_arrived(op));
        op->state = LSI_COLLECTIVE_RUNNING;
        lsi_record_arrived(op);
        if (op->call.refusal != LS_OK || op->refuser >= 0)
            return report_refusal(op);
        LS_TRY(agree_on_algorithm(op));
    }
    return op->algorithm->run(op);
}

/*
 * Works on the queue in order. An op may fail in the same way on all ranks: one
 * cannot take part, or no path serves all. Then the op is over; the group goes
 * on unless it has failed itself.
 */
static ls_status progress_queue(ls_group *group)
{
    while (group->queue.first != NULL) {
        enter_all(group);
        lsi_collective *op = group->queue.first;
        if (op->state < LSI_COLLECTIVE_ENTERED)
            break;
        const ls_status status = advance(op);
        if (status == LS_IN_PROGRESS)
            break;
        if (status != LS_OK && lsi_has_failed(group))
            return lsi_report_failure(group);
        finish(op, status);
    }
    return LS_OK;
}

ls_status lsi_progress(ls_group *group)
{
    /*
     * A failure ends all incomplete operations. Operations that all ranks had
     * done before it was posted are finished first, once.
     */
    if (group->failed || lsi_is_inherited(group))
        return lsi_report_failure(group);
    const bool failed = lsi_has_failed(group);
    group->queue.waits_completed = false;
    ls_status status = lsi_channels_progress(group);
    if (status == LS_OK)
        status = progress_queue(group);
    if (status == LS_OK && group->streams.active != NULL)
        status = lsi_messages_progress(group);
    if (status == LS_OK && !failed && group->service.serve != NULL)
        status = group->service.serve(group->service.context);
    return failed && status == LS_OK ? lsi_report_failure(group) : status;
}
