#include "comm/health/recorder.h"

#include <assert.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "observe/spans.h"

enum { LONG_BYTES = 16 * 1024, TIMED_EVERY = 16 };

ls_status lsi_recorder_open(lsi_recorder **out)
{
    lsi_recorder *recorder;
    LS_TRY(lsi_alloc_zeroed(&recorder, sizeof(lsi_recorder), LS_MEMORY_COMM,
                            "the record of operations"));
    recorder->opened = lsi_instant_now();
    *out = recorder;
    return LS_OK;
}

/* ---- writing ------------------------------------------------------------- */

#define PUT(field, value)                                                      \
    atomic_store_explicit(&(field), (value), memory_order_release)
/* The writer reads what it has written itself. */
#define OWN(field) atomic_load_explicit(&(field), memory_order_relaxed)

static void begin(lsi_record *record, uint64_t number, lsi_fingerprint print,
                  uint64_t apart, size_t bytes)
{
    assert(number > OWN(record->number));
    const bool timed = bytes >= LONG_BYTES || number % TIMED_EVERY == 0;
    PUT(record->number, 0);
    PUT(record->what, print.what);
    PUT(record->count, print.count);
    PUT(record->began, timed ? lsi_ticks() : 0);
    PUT(record->ended, 0);
    PUT(record->algorithm, NULL);
    PUT(record->apart, apart);
    PUT(record->state, timed ? LSI_RECORD_TIMED : 0);
    PUT(record->number, number);
}

static void end(lsi_record *record, uint64_t result)
{
    const uint64_t state = OWN(record->state);
    assert((state & LSI_RECORD_DONE) == 0);
    if ((state & LSI_RECORD_TIMED) != 0)
        PUT(record->ended, lsi_ticks());
    PUT(record->state, state | result);
}

/* NULL if a later record has taken its place. */
static lsi_record *find(lsi_record *ring, uint64_t number)
{
    lsi_record *record = &ring[number % LSI_RECORDS];
    return OWN(record->number) == number ? record : NULL;
}

/*
 * Puts the spans of a collective on the timeline: until all ranks have come,
 * and from then on.
 */
static void put_spans(const lsi_collective *op)
{
    const char *const name = lsi_operation_name(op->call.operation);
    lsi_span span = {.begin = op->began,
                     .end = op->arrived != 0 ? op->arrived : lsi_ticks(),
                     .bytes = op->block,
                     .work = op->group->identity.number,
                     .id = op->sequence};
    lsi_span_put(LSI_SPAN_GATHERING, name, span);
    if (op->arrived == 0)
        return;
    span.begin = op->arrived;
    span.end = lsi_ticks();
    lsi_span_put(LSI_SPAN_TRANSFER, name, span);
}

void lsi_record_begin(const lsi_collective *op)
{
    lsi_record *ring = op->group->recording.recorder->collective;
    begin(&ring[op->sequence % LSI_RECORDS], op->sequence, op->print,
          (uintptr_t)op->recv - (uintptr_t)op->send, op->block);
}

void lsi_record_arrived(lsi_collective *op)
{
    if (op->began != 0)
        op->arrived = lsi_ticks();
}

void lsi_record_end(const lsi_collective *op)
{
    if (op->began != 0)
        put_spans(op);
    lsi_record *record =
        find(op->group->recording.recorder->collective, op->sequence);
    if (record == NULL)
        return;
    PUT(record->algorithm, op->algorithm);
    end(record,
        LSI_RECORD_DONE | (op->status == LS_OK ? 0 : LSI_RECORD_FAILED));
}

void lsi_record_message(ls_group *group, lsi_message *message,
                        lsi_operation operation, int peer)
{
    lsi_recorder *recorder = group->recording.recorder;
    const lsi_call call = {.operation = operation,
                           .dtype = (ls_dtype)message->envelope.dtype,
                           .count = message->envelope.count};
    message->record = ++recorder->messages;
    message->began = lsi_span_begin();
    message->peer = peer;
    message->operation = operation;
    begin(&recorder->message[message->record % LSI_RECORDS], message->record,
          lsi_fingerprint_of(&call), (uint64_t)peer, message->envelope.bytes);
}

void lsi_record_message_peer(ls_group *group, const lsi_message *message)
{
    lsi_record *record =
        find(group->recording.recorder->message, message->record);
    if (record != NULL)
        PUT(record->apart, (uint64_t)message->peer);
}

void lsi_record_message_end(ls_group *group, const lsi_message *message)
{
    lsi_record *record =
        find(group->recording.recorder->message, message->record);
    lsi_span_end(LSI_SPAN_MESSAGE, lsi_operation_name(message->operation),
                 message->began, message->envelope.bytes,
                 group->identity.number, (uint64_t)message->peer);
    if (record != NULL)
        end(record, LSI_RECORD_DONE);
}

/* ---- waiting ------------------------------------------------------------- */

/* The record of the operation that this rank waits in; NULL if none. */
static lsi_record *awaited(ls_group *group)
{
    if (group->queue.first != NULL)
        return find(group->recording.recorder->collective,
                    group->queue.first->sequence);
    const lsi_message *message = lsi_message_awaited(group);
    if (message == NULL || message->record == 0)
        return NULL;
    return find(group->recording.recorder->message, message->record);
}

void lsi_record_wait(ls_group *group)
{
    lsi_record *record = awaited(group);
    if (record != NULL && OWN(record->began) == 0)
        PUT(record->began, lsi_ticks());
}

void lsi_record_long_wait(ls_group *group)
{
    lsi_record *record = awaited(group);
    if (record != NULL)
        PUT(record->state, OWN(record->state) | LSI_RECORD_TIMED);
}

/* ---- reading ------------------------------------------------------------- */

#define GET(field) atomic_load_explicit(&(field), memory_order_acquire)

/* Whether the record was whole and has not changed meanwhile. */
static bool copy_record(const lsi_record *record, lsi_recorded *out)
{
    out->number = GET(record->number);
    const lsi_fingerprint print = {GET(record->what), GET(record->count)};
    out->call = lsi_fingerprint_call(print);
    out->began = GET(record->began);
    out->ended = GET(record->ended);
    out->apart = GET(record->apart);
    out->algorithm = GET(record->algorithm);
    out->state = GET(record->state);
    return out->number != 0 && GET(record->number) == out->number;
}

bool lsi_record_find(const lsi_recorder *recorder, uint64_t sequence,
                     lsi_recorded *out)
{
    return copy_record(&recorder->collective[sequence % LSI_RECORDS], out) &&
           out->number == sequence;
}

static int by_number(const void *a, const void *b)
{
    const lsi_recorded *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

size_t lsi_recorder_ordered(const lsi_record ring[LSI_RECORDS],
                            lsi_recorded out[LSI_RECORDS])
{
    size_t n = 0;
    for (int i = 0; i < LSI_RECORDS; i++)
        n += copy_record(&ring[i], &out[n]);
    qsort(out, n, sizeof(out[0]), by_number);
    return n;
}
