/*
 * Collectives have the same number on all ranks, so calls of equal numbers are
 * compared. A rank's own file is the best witness of its calls. For a rank
 * without a file, the newest of the other files is used.
 */
#include "report/diagnosis.h"

#include <stdlib.h>
#include <string.h>

#include "base/append.h"

const char *lsi_finding_name(lsi_finding_kind kind)
{
    static const char *const names[] = {
#define X(name, text) text,
        LSI_FINDING_LIST(X)
#undef X
    };
    return names[kind];
}

/* ---- texts --------------------------------------------------------------- */

static lsi_finding *begin(lsi_diagnosis *d, lsi_finding_kind kind,
                          int64_t sequence)
{
    static const lsi_finding none;
    /*
     * Further findings overwrite the last place: the first findings matter
     * most.
     */
    if (d->n_findings < LSI_FINDINGS)
        d->n_findings++;
    lsi_finding *finding = &d->finding[d->n_findings - 1];
    *finding = none;
    finding->kind = kind;
    finding->sequence = sequence;
    return finding;
}

#define append(finding, ...)                                                   \
    lsi_append((finding)->text, LSI_FINDING_BYTES, __VA_ARGS__)

/* "rank 3", "ranks 0-2, 5" */
static void append_ranks(lsi_finding *finding, const bool *is_one, int size)
{
    int n = 0;
    for (int r = 0; r < size; r++)
        n += is_one[r];
    append(finding, n == 1 ? "rank " : "ranks ");
    const char *comma = "";
    for (int r = 0; r < size; r++) {
        int end = r;
        while (end + 1 < size && is_one[r] && is_one[end + 1])
            end++;
        if (is_one[r])
            append(finding, "%s%d", comma, r);
        if (end > r)
            append(finding, "-%d", end);
        comma = is_one[r] ? ", " : comma;
        r = end;
    }
}

/* ---- looking things up --------------------------------------------------- */

static int by_sequence(const void *key, const void *element)
{
    const int64_t sequence = *(const int64_t *)key;
    const lsi_trace_call *call = element;
    return (sequence > call->sequence) - (sequence < call->sequence);
}

const lsi_trace_call *lsi_trace_find(const lsi_trace *trace, int64_t sequence)
{
    const lsi_trace_calls *calls = &trace->collectives;
    return calls->n == 0 ? NULL
                         : bsearch(&sequence, calls->call, calls->n,
                                   sizeof(lsi_trace_call), by_sequence);
}

static const lsi_trace_call *call_of(const lsi_diagnosis *d, int rank,
                                     int64_t sequence)
{
    return d->trace[rank] == NULL ? NULL
                                  : lsi_trace_find(d->trace[rank], sequence);
}

static bool is_done(const lsi_trace_call *call)
{
    return strcmp(call->status, "done") == 0;
}

static bool is_over(const lsi_trace_call *call)
{
    return is_done(call) || call->refused;
}

const lsi_trace_call *lsi_trace_unfinished(const lsi_trace_calls *calls)
{
    for (size_t i = 0; i < calls->n; i++)
        if (!is_over(&calls->call[i]))
            return &calls->call[i];
    return NULL;
}

double lsi_trace_waited(const lsi_trace *trace, const lsi_trace_call *call)
{
    if (call->began_ns == 0)
        return -1;
    return (double)(trace->written_ns - call->began_ns) * 1e-9;
}

static const lsi_trace_rank *seen(const lsi_diagnosis *d, int rank)
{
    return &d->newest->ranks[rank];
}

static bool has_arrived(const lsi_diagnosis *d, int rank, int64_t sequence)
{
    return call_of(d, rank, sequence) != NULL ||
           seen(d, rank)->arrived >= sequence;
}

static bool failed_with(const lsi_diagnosis *d, const char *kind)
{
    const char *own = d->newest->failure.kind;
    return own != NULL && strcmp(own, kind) == 0;
}

/* ---- disagreement -------------------------------------------------------- */

/* Meaning of a call's `count`. */
static const char *meaning_of_count(const char *operation)
{
    if (strcmp(operation, "select") == 0)
        return "line";
    if (strcmp(operation, "shared_alloc") == 0)
        return "size";
    return strcmp(operation, "shared_free") == 0 ? "buffer" : "count";
}

static const char *difference(const lsi_trace_call *a, const lsi_trace_call *b)
{
    if (strcmp(a->operation, b->operation) != 0)
        return "operation";
    if (strcmp(a->dtype, b->dtype) != 0)
        return "type";
    if (a->count != b->count && strcmp(a->operation, "all_to_allv") != 0)
        return meaning_of_count(a->operation);
    if (strcmp(a->redop, b->redop) != 0)
        return "reduction";
    return a->root != b->root ? "root" : NULL;
}

/* Whether the two ranks call a and b in opposite order. */
static bool is_swapped(const lsi_trace *one, const lsi_trace *other,
                       int64_t sequence)
{
    const lsi_trace_call *a = lsi_trace_find(one, sequence);
    const lsi_trace_call *b = lsi_trace_find(other, sequence);
    const lsi_trace_call *next_a = lsi_trace_find(one, sequence + 1);
    const lsi_trace_call *next_b = lsi_trace_find(other, sequence + 1);
    return (next_a != NULL && difference(next_a, b) == NULL) ||
           (next_b != NULL && difference(next_b, a) == NULL);
}

/* "rank 1 calls X; ranks 0, 2-3 call Y" */
static void append_sides(const lsi_diagnosis *d, lsi_finding *finding,
                         int64_t sequence)
{
    bool said[LSI_TRACE_MOST_RANKS] = {false};
    const char *between = "";
    for (int r = 0; r < d->size; r++) {
        bool same[LSI_TRACE_MOST_RANKS] = {false};
        const lsi_trace_call *own = call_of(d, r, sequence);
        if (own == NULL || said[r])
            continue;
        for (int other = r; other < d->size; other++) {
            const lsi_trace_call *call = call_of(d, other, sequence);
            same[other] = call != NULL && difference(own, call) == NULL;
            said[other] = said[other] || same[other];
        }
        append(finding, "%s", between);
        append_ranks(finding, same, d->size);
        append(finding, ": %s", own->call);
        between = "; ";
    }
}

/* Whether ranks differ about a call; if so, adds a finding. */
static bool compare(lsi_diagnosis *d, int64_t sequence)
{
    const lsi_trace_call *first = NULL;
    int first_rank = 0;
    for (int r = 0; r < d->size; r++) {
        const lsi_trace_call *call = call_of(d, r, sequence);
        if (call != NULL && call->refused)
            return false; /* its arguments may be anything */
        if (first == NULL) {
            first = call;
            first_rank = r;
        }
        const char *field = call == NULL ? NULL : difference(first, call);
        if (field == NULL)
            continue;
        lsi_finding *finding = begin(d, LSI_FINDING_MISMATCH, sequence);
        append(finding, "call #%lld differs (%s): ", (long long)sequence,
               field);
        append_sides(d, finding, sequence);
        if (is_swapped(d->trace[first_rank], d->trace[r], sequence))
            append(finding, "; the ranks make these calls in different orders");
        return true;
    }
    return false;
}

/*
 * A walk in order over the call numbers that any rank still remembers, with
 * gaps of any size between them.
 */
typedef struct walk {
    size_t next[LSI_TRACE_MOST_RANKS]; /* index of the next call of each rank */
    int64_t sequence;
} walk;

static bool next_remembered(const lsi_diagnosis *d, walk *w)
{
    int64_t least = INT64_MAX; /* above the number of any operation */
    for (int r = 0; r < d->size; r++) {
        if (d->trace[r] == NULL)
            continue;
        const lsi_trace_calls *calls = &d->trace[r]->collectives;
        size_t *const next = &w->next[r];
        if (*next < calls->n && calls->call[*next].sequence == w->sequence)
            ++*next;
        if (*next < calls->n && calls->call[*next].sequence < least)
            least = calls->call[*next].sequence;
    }
    w->sequence = least;
    return least != INT64_MAX;
}

static void find_mismatch(lsi_diagnosis *d)
{
    walk w = {.sequence = 0};
    while (next_remembered(d, &w))
        if (compare(d, w.sequence))
            return;
    const lsi_trace_failure *failure = &d->newest->failure;
    if (!failed_with(d, "LS_ERR_MISMATCH"))
        return;
    lsi_finding *finding = begin(d, LSI_FINDING_MISMATCH, failure->sequence);
    if (failure->sequence == 0)
        append(finding, "sender and receiver disagree about a message (%s): ",
               failure->field);
    else
        append(finding,
               "call #%lld differs (%s): ", (long long)failure->sequence,
               failure->field);
    append(finding, "rank %d: %s; rank %d: %s", failure->side[0].rank,
           failure->side[0].call, failure->side[1].rank, failure->side[1].call);
}

/* ---- death --------------------------------------------------------------- */

static void append_progress(const lsi_diagnosis *d, lsi_finding *finding,
                            int rank)
{
    const lsi_trace_rank *view = seen(d, rank);
    if (strcmp(view->presence, "absent") == 0) {
        append(finding, "it never joined the group");
        return;
    }
    if (view->completed == 0)
        append(finding, "it has completed no call");
    else
        append(finding, "its last completed call is #%lld",
               (long long)view->completed);
    if (view->arrived > view->completed)
        append(finding, ", and it was in call #%lld", (long long)view->arrived);
}

static void find_death(lsi_diagnosis *d)
{
    if (!failed_with(d, "LS_ERR_PEER_DEAD"))
        return;
    const lsi_trace_failure *failure = &d->newest->failure;
    const lsi_trace_rank *view = seen(d, failure->rank);
    const bool left = strcmp(view->presence, "left") == 0;
    lsi_finding *finding = begin(d, LSI_FINDING_DEAD, failure->sequence);
    append(finding, "rank %d (host %s, pid %d) %s: ", failure->rank, view->host,
           view->pid,
           left ? "closed the group before the other ranks" : "died");
    append_progress(d, finding, failure->rank);
    const lsi_trace_call *call = lsi_trace_unfinished(&d->newest->collectives);
    if (call != NULL)
        append(finding, "; other ranks are in #%lld %s",
               (long long)call->sequence, call->call);
}

/* ---- lateness ------------------------------------------------------------ */

/*
 * The longest wait of the ranks that are in a call; *sequence: the call's
 * number.
 */
static double longest_wait(const lsi_diagnosis *d, int64_t *sequence)
{
    double longest = -1;
    *sequence = INT64_MAX;
    for (int r = 0; r < d->size; r++) {
        if (d->trace[r] == NULL)
            continue;
        const lsi_trace_call *call =
            lsi_trace_unfinished(&d->trace[r]->collectives);
        if (call == NULL || call->sequence > *sequence)
            continue;
        const double waited = lsi_trace_waited(d->trace[r], call);
        longest =
            call->sequence < *sequence || waited > longest ? waited : longest;
        *sequence = call->sequence;
    }
    return longest;
}

static void append_late(const lsi_diagnosis *d, lsi_finding *finding,
                        const bool *late)
{
    for (int r = 0; r < d->size; r++) {
        if (!late[r])
            continue;
        append(finding, "; rank %d (host %s, pid %d, %s) has not arrived: ", r,
               seen(d, r)->host, seen(d, r)->pid, seen(d, r)->presence);
        append_progress(d, finding, r);
    }
}

/* All ranks have entered the call, but it does not end. */
static void append_waits(const lsi_diagnosis *d, lsi_finding *finding,
                         const bool *waits)
{
    append(finding, "; all ranks have arrived, but the call does not finish");
    for (int r = 0; r < d->size; r++) {
        const int target = waits[r] ? d->trace[r]->ranks[r].waits_for - 1 : -1;
        if (target >= 0)
            append(finding, "; rank %d waits for rank %d (host %s, pid %d)", r,
                   target, seen(d, target)->host, seen(d, target)->pid);
    }
}

static void find_late(lsi_diagnosis *d)
{
    int64_t sequence;
    const double waited = longest_wait(d, &sequence);
    const bool gave_up = failed_with(d, "LS_ERR_TIMEOUT");
    if (sequence == INT64_MAX || (waited < d->late_seconds && !gave_up))
        return;
    bool waits[LSI_TRACE_MOST_RANKS] = {false};
    bool late[LSI_TRACE_MOST_RANKS] = {false};
    const lsi_trace_call *call = NULL;
    bool any_late = false;
    for (int r = 0; r < d->size; r++) {
        const lsi_trace_call *own = call_of(d, r, sequence);
        waits[r] = own != NULL && !is_over(own);
        late[r] = !has_arrived(d, r, sequence);
        any_late = any_late || late[r];
        call = waits[r] ? own : call;
    }
    if (call == NULL)
        return;
    lsi_finding *finding = begin(d, LSI_FINDING_LATE, sequence);
    append_ranks(finding, waits, d->size);
    append(finding, " in #%lld %s", (long long)sequence, call->call);
    if (waited >= 0)
        append(finding, " for %.1f s", waited);
    if (any_late)
        append_late(d, finding, late);
    else
        append_waits(d, finding, waits);
}

static void find_messages(lsi_diagnosis *d)
{
    for (int r = 0; r < d->size; r++) {
        if (d->trace[r] == NULL)
            continue;
        const lsi_trace_call *message =
            lsi_trace_unfinished(&d->trace[r]->messages);
        if (message == NULL)
            continue;
        const double waited = lsi_trace_waited(d->trace[r], message);
        if (waited < d->late_seconds && !failed_with(d, "LS_ERR_TIMEOUT"))
            continue;
        lsi_finding *finding = begin(d, LSI_FINDING_MESSAGE, 0);
        const bool sends = strcmp(message->operation, "send") == 0;
        append(finding, "rank %d waits to %s ", r,
               sends ? "send to" : "receive from");
        if (message->peer < 0)
            append(finding, "any rank");
        else
            append(finding, "rank %d", message->peer);
        if (waited >= 0)
            append(finding, " for %.1f s", waited);
        append(finding, ": %s", message->call);
    }
}

/* ---- the rest ------------------------------------------------------------ */

static void find_missing(lsi_diagnosis *d)
{
    for (int r = 0; r < d->size; r++) {
        const bool said =
            failed_with(d, "LS_ERR_PEER_DEAD") && d->newest->failure.rank == r;
        if (d->trace[r] != NULL || said)
            continue;
        lsi_finding *finding = begin(d, LSI_FINDING_MISSING, 0);
        append(finding,
               "rank %d (host %s, pid %d, %s) has written no record: ", r,
               seen(d, r)->host, seen(d, r)->pid, seen(d, r)->presence);
        append_progress(d, finding, r);
    }
}

static void find_failure(lsi_diagnosis *d)
{
    if (d->n_findings != 0 || d->newest->failure.kind == NULL)
        return;
    append(begin(d, LSI_FINDING_FAILED, d->newest->failure.sequence), "%s: %s",
           d->newest->failure.kind, d->newest->reason);
}

/*
 * The last call that all ranks completed, by their files or by the records of
 * other ranks.
 */
static void find_last_completed(lsi_diagnosis *d)
{
    d->last_completed = INT64_MAX;
    for (int r = 0; r < d->size; r++) {
        const int64_t own = d->trace[r] != NULL ? d->trace[r]->completed
                                                : seen(d, r)->completed;
        if (own < d->last_completed)
            d->last_completed = own;
    }
}

/*
 * When a call began on a rank, by the wall clock, which is the only clock that
 * hosts share. All ranks of a host use one offset, so that it does not change
 * their order.
 */
static int64_t began(const lsi_diagnosis *d, int rank, int64_t sequence)
{
    const lsi_trace *const *trace = d->trace;
    int first = 0;
    while (trace[first] == NULL ||
           strcmp(trace[first]->host, trace[rank]->host) != 0)
        first++;
    return call_of(d, rank, sequence)->began_ns + trace[first]->wall_ns -
           trace[first]->written_ns;
}

/* Adds up how late each rank came to a call, if this is known of all ranks. */
static void add_arrivals(lsi_diagnosis *d, int64_t sequence)
{
    int64_t first = INT64_MAX;
    for (int r = 0; r < d->size; r++) {
        const lsi_trace_call *call = call_of(d, r, sequence);
        if (call == NULL || call->began_ns == 0 || !is_done(call))
            return;
        const int64_t own = began(d, r, sequence);
        first = own < first ? own : first;
    }
    d->timed++;
    /* The clocks of two hosts may differ by any number. */
    for (int r = 0; r < d->size; r++)
        d->behind_us[r] +=
            (double)((uint64_t)began(d, r, sequence) - (uint64_t)first) * 1e-3;
}

static void find_stragglers(lsi_diagnosis *d)
{
    walk w = {.sequence = 0};
    while (next_remembered(d, &w))
        add_arrivals(d, w.sequence);
    for (int r = 0; r < d->size && d->timed != 0; r++)
        d->behind_us[r] /= (double)d->timed;
}

void lsi_diagnose(const lsi_trace *const *traces, size_t n, double late_seconds,
                  lsi_diagnosis *out)
{
    memset(out, 0, sizeof(*out));
    out->newest = traces[0];
    out->size = traces[0]->size;
    out->late_seconds = late_seconds;
    for (size_t i = 0; i < n; i++) {
        const lsi_trace **place = &out->trace[traces[i]->rank];
        if (*place == NULL || (*place)->written_ns < traces[i]->written_ns)
            *place = traces[i];
        if (traces[i]->wall_ns > out->newest->wall_ns)
            out->newest = traces[i];
    }
    find_last_completed(out);
    find_stragglers(out);
    find_mismatch(out);
    find_death(out);
    find_late(out);
    find_messages(out);
    find_missing(out);
    find_failure(out);
}
