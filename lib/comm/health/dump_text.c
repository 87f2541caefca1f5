/*
 * The content of a record file. It is put together by any thread, so nothing is
 * read that only the group's own thread may touch.
 */
#include <jansson.h>
#include <string.h>

#include "base/bits.h"
#include "base/json.h"
#include "comm/health/dump.h"
#include "comm/health/recorder.h"
#include "comm/state/algorithm.h"
#include "comm/state/channels.h"
#include "fold/fold.h"

typedef struct dump {
    const ls_group *group;
    lsi_instant now;
    const lsi_failure_record *failure; /* NULL: the group is well */
} dump;

static void set_int(json_t *object, const char *name, uint64_t value)
{
    json_object_set_new(object, name, json_integer((json_int_t)value));
}

static void set_text(json_t *object, const char *name, const char *value)
{
    json_object_set_new(object, name, json_string(value));
}

/* ---- operations ---------------------------------------------------------- */

static void set_call(json_t *object, const lsi_call *call)
{
    char text[128];
    set_text(object, "call", lsi_call_text(call, text, sizeof(text)));
    set_text(object, "operation", lsi_operation_name(call->operation));
    set_int(object, "count", call->count);
    set_text(object, "dtype", ls_dtype_name(lsi_call_dtype(call)));
    set_text(object, "redop", lsi_call_redop_name(call));
    json_object_set_new(object, "root",
                        json_integer(lsi_operation_has_counts(call->operation)
                                         ? 0
                                         : call->root));
    set_int(object, "bytes", lsi_call_bytes(call));
}

static void set_time(json_t *object, const char *name, const dump *d,
                     uint64_t ticks)
{
    if (ticks != 0)
        set_int(object, name,
                lsi_ticks_to_ns(ticks, d->group->recording.recorder->opened,
                                d->now));
}

static void set_status(json_t *object, const dump *d,
                       const lsi_recorded *record)
{
    const bool done = (record->state & LSI_RECORD_DONE) != 0;
    if (done && (record->state & LSI_RECORD_FAILED) != 0)
        set_text(object, "status", "failed");
    else if (done)
        set_text(object, "status", "done");
    else if (d->failure == NULL)
        set_text(object, "status", "in flight");
    else
        set_text(object, "status", "failed");
    if (!done && d->failure != NULL)
        set_text(object, "error",
                 ls_status_name((ls_status)d->failure->status));
}

static json_t *record_json(const dump *d, const lsi_recorded *record)
{
    json_t *json = json_object();
    set_int(json, "sequence", record->number);
    set_call(json, &record->call);
    set_time(json, "began_ns", d, record->began);
    set_time(json, "ended_ns", d, record->ended);
    set_status(json, d, record);
    return json;
}

/* recv - send, if the call is made in place. */
static uint64_t in_place_offset(const ls_group *group, const lsi_call *call)
{
    const uint64_t before = (uint64_t)group->rank * call->count *
                            (uint64_t)ls_dtype_size(call->dtype);
    const lsi_operation_row *row = lsi_operation_of(call->operation);
    const bool cuts = row->sends == LSI_EXTENT_BLOCKS;
    const bool joins = row->receives == LSI_EXTENT_BLOCKS;
    return (cuts ? before : 0) - (joins ? before : 0);
}

static json_t *collective_json(const dump *d, const lsi_recorded *record)
{
    json_t *json = record_json(d, record);
    if (record->call.refusal == LS_OK &&
        !lsi_operation_has_counts(record->call.operation)) {
        const uint64_t offset = in_place_offset(d->group, &record->call);
        json_object_set_new(json, "in_place",
                            json_boolean(record->apart == offset));
    }
    if (record->algorithm != NULL)
        set_text(json, "algorithm", record->algorithm->name);
    return json;
}

static json_t *message_json(const dump *d, const lsi_recorded *record)
{
    json_t *json = record_json(d, record);
    /* From any rank: -1. */
    json_object_set_new(json, "peer", json_integer((int)record->apart));
    return json;
}

static json_t *ring_json(const dump *d, const lsi_record *ring,
                         json_t *(*one)(const dump *, const lsi_recorded *))
{
    static lsi_recorded taken[LSI_RECORDS]; /* writers come one by one */
    json_t *list = json_array();
    const size_t n = lsi_recorder_ordered(ring, taken);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, one(d, &taken[i]));
    return list;
}

/* ---- the others ---------------------------------------------------------- */

/* The latest collective in which a rank has arrived. */
static uint64_t arrived_in(const ls_group *group, int rank)
{
    uint64_t latest = 0;
    for (uint64_t i = 0; i < LSI_CELLS; i++) {
        const uint64_t stamp = atomic_load(&lsi_cell_of(group, i, rank)->stamp);
        if (stamp >> LSI_PHASE_BITS > latest)
            latest = stamp >> LSI_PHASE_BITS;
    }
    return latest;
}

/* Whether a rank of another node is alive is not known until it is missed. */
static const char *remote_presence(const ls_group *group, int rank)
{
    const lsi_failure_record *failure = lsi_failure_of(group);
    if (atomic_load(&lsi_member_of(group, rank)->presence) == LSI_LEFT)
        return "left";
    if (failure != NULL && failure->status == LS_ERR_PEER_DEAD &&
        failure->rank_a == rank)
        return "dead";
    return "remote";
}

static const char *presence_of(const ls_group *group, int rank)
{
    const lsi_member *member = lsi_member_of(group, rank);
    if (!lsi_shares_memory(group, rank))
        return remote_presence(group, rank);
    switch (atomic_load(&member->presence)) {
    case LSI_ABSENT:
        return "absent";
    case LSI_LEFT:
        return "left";
    default:
        return rank == group->rank ||
                       lsi_channel_to(group, rank)->alive(group, rank)
                   ? "alive"
                   : "dead";
    }
}

static json_t *peer_json(const ls_group *group, int rank)
{
    const lsi_member *member = lsi_member_of(group, rank);
    const char *presence = presence_of(group, rank);
    json_t *json = json_object();
    set_int(json, "rank", (uint64_t)rank);
    set_text(json, "presence", presence);
    if (strcmp(presence, "absent") == 0)
        return json;
    set_int(json, "pid", (uint64_t)member->pid);
    set_text(json, "host", member->host);
    set_int(json, "completed", atomic_load(&member->completed));
    set_int(json, "arrived", arrived_in(group, rank));
    const uint64_t word = atomic_load(&member->waiting_for);
    if (word != 0)
        set_int(json, word & 1 ? "receives_from" : "sends_to", (word >> 1) - 1);
    const uint32_t awaits = atomic_load(&member->awaits);
    if (awaits != 0)
        set_int(json, "waits_for", awaits - 1);
    return json;
}

static json_t *peers_json(const ls_group *group)
{
    json_t *list = json_array();
    for (int rank = 0; rank < group->size; rank++)
        json_array_append_new(list, peer_json(group, rank));
    return list;
}

/* ---- the failure --------------------------------------------------------- */

static json_t *side_json(int rank, lsi_fingerprint print)
{
    const lsi_call call = lsi_fingerprint_call(print);
    json_t *json = json_object();
    set_int(json, "rank", (uint64_t)rank);
    set_call(json, &call);
    return json;
}

static void set_sides(json_t *json, const lsi_failure_record *failure)
{
    const lsi_fingerprint a = {failure->what_a, failure->count_a};
    const lsi_fingerprint b = {failure->what_b, failure->count_b};
    const lsi_call call_a = lsi_fingerprint_call(a);
    const lsi_call call_b = lsi_fingerprint_call(b);
    set_text(json, "field", lsi_call_difference(&call_a, &call_b));
    json_object_set_new(json, "sides",
                        json_pack("[o, o]", side_json(failure->rank_a, a),
                                  side_json(failure->rank_b, b)));
}

/* A mismatch has two sides; anything else has one rank to name. */
static json_t *failure_json(const dump *d)
{
    const lsi_failure_record *failure = d->failure;
    if (failure == NULL)
        return json_null();
    json_t *json = json_object();
    const lsi_member *member = lsi_member_of(d->group, failure->rank_a);
    set_text(json, "kind", ls_status_name((ls_status)failure->status));
    set_int(json, "sequence", failure->sequence);
    if (failure->status == LS_ERR_MISMATCH) {
        set_sides(json, failure);
        return json;
    }
    set_int(json, "rank", (uint64_t)failure->rank_a);
    set_int(json, "pid", (uint64_t)member->pid);
    set_text(json, "host", member->host);
    lsi_recorded record;
    if (lsi_record_find(d->group->recording.recorder, failure->sequence,
                        &record))
        set_call(json, &record.call);
    return json;
}

/* ---- the file ------------------------------------------------------------ */

static json_t *dump_json(const dump *d, const char *reason)
{
    const ls_group *group = d->group;
    const lsi_member *self = lsi_member_of(group, group->rank);
    char job[17];
    snprintf(job, sizeof(job), "%016llx",
             (unsigned long long)group->identity.job);
    json_t *json = json_object();
    set_int(json, "lockstep_record", 1);
    set_text(json, "job", job);
    set_int(json, "group", group->identity.number);
    set_int(json, "rank", (uint64_t)group->rank);
    set_int(json, "size", (uint64_t)group->size);
    set_int(json, "rank_in_job", (uint64_t)self->node_rank);
    set_text(json, "host", self->host);
    set_int(json, "pid", (uint64_t)self->pid);
    set_text(json, "isa", lsi_isa_name(lsi_fold_get()->isa));
    set_text(json, "bits", lsi_bits_name(ls_bits_in_use()));
    set_text(json, "reason", reason);
    set_int(json, "written_ns", d->now.ns);
    set_int(json, "wall_ns", lsi_wall_clock_ns());
    set_int(json, "completed", atomic_load(&self->completed));
    json_object_set_new(json, "failure", failure_json(d));
    json_object_set_new(json, "ranks", peers_json(group));
    json_object_set_new(
        json, "collectives",
        ring_json(d, group->recording.recorder->collective, collective_json));
    json_object_set_new(
        json, "messages",
        ring_json(d, group->recording.recorder->message, message_json));
    return json;
}

char *lsi_dump_text(const ls_group *group, const char *reason)
{
    const dump d = {group, lsi_instant_now(), lsi_failure_of(group)};
    json_t *json = dump_json(&d, reason);
    char *text = lsi_json_dumps(json, JSON_INDENT(1));
    json_decref(json);
    return text;
}
