#include "observe/spans.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/fork.h"
#include "base/memory.h"
#include "lockstep/profile.h"
#include "observe/chunks.h"
#include "observe/live.h"
#include "observe/lock.h"
#include "observe/memory_record.h"
#include "observe/names.h"
#include "observe/span_file.h"

enum {
    SPANS = 1 << 13,   /* of a buffer: 400 KiB */
    ENOUGH = SPANS / 4 /* to be worth writing at the end of a step */
};
enum { POINTERS = 64, OPEN_RANGES = 64 };

#define SECOND_NS ((uint64_t)1000 * 1000 * 1000)

_Atomic unsigned lsi_span_wanted;

void lsi_span_want(unsigned by, bool wanted)
{
    if (wanted)
        (void)atomic_fetch_or(&lsi_span_wanted, by);
    else
        (void)atomic_fetch_and(&lsi_span_wanted, ~by);
}

/* A range that is open. */
typedef struct open_range {
    uint64_t begin, bytes, work;
    uint32_t name;
} open_range;

struct lsi_span_buffer {
    lsi_span_buffer *next; /* of all threads */
    uint32_t thread;
    char name[16];
    /* Spans put in by the thread, and taken out under `lock`, in all. */
    _Atomic uint64_t put, taken;
    uint64_t mark;  /* when a range or a phase was entered or left last */
    uint64_t layer; /* id of kernels: the layer of this thread; 0: none */
    uint64_t written_ns;
    struct {
        const char *name;
        uint32_t number;
    } pointers[POINTERS]; /* names that stay where they are */
    open_range ranges[OPEN_RANGES];
    unsigned depth; /* of ranges; those that are too deep are not recorded */
    lsi_span spans[SPANS];
};

static lsi_span_buffer *buffers;
static uint32_t threads;
static pthread_key_t ends_with_thread;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local lsi_span_buffer *own;

/* The number of a name that stays where it is. */
static uint32_t number_of_constant(lsi_span_buffer *buffer, const char *name)
{
    const size_t at = ((uintptr_t)name >> 3 ^ (uintptr_t)name) % POINTERS;
    if (buffer->pointers[at].name != name) {
        buffer->pointers[at].number = lsi_name_number(name);
        buffer->pointers[at].name = name;
    }
    return buffer->pointers[at].number;
}

/* ---- buffers ------------------------------------------------------------- */

/* Under the lock. */
static void flush(lsi_span_buffer *buffer)
{
    const uint64_t put = atomic_load(&buffer->put);
    uint64_t taken = atomic_load(&buffer->taken);
    while (taken < put) {
        const uint64_t at = taken % SPANS;
        const uint64_t end =
            put - taken < SPANS - at ? put : taken + SPANS - at;
        if (!lsi_span_write(buffer->thread, buffer->name, &buffer->spans[at],
                            end - taken))
            lsi_span_want(LSI_SPAN_TO_FILE, false);
        taken = end;
        atomic_store(&buffer->taken, taken);
    }
}

static void flush_own(lsi_span_buffer *buffer)
{
    lsi_observe_lock();
    flush(buffer);
    lsi_observe_unlock();
    buffer->written_ns = lsi_clock_ns();
}

/* The rank names the file, so before there is one nothing is written. */
static void flush_if_named(lsi_span_buffer *buffer)
{
    int32_t rank, ranks;
    lsi_observe_lock();
    lsi_get_rank(&rank, &ranks);
    if (rank >= 0)
        flush(buffer);
    lsi_observe_unlock();
    buffer->written_ns = lsi_clock_ns();
}

void lsi_span_flush_all(void)
{
    for (lsi_span_buffer *b = buffers; b != NULL; b = b->next)
        flush(b);
}

static void end_thread(void *context)
{
    lsi_span_buffer *const buffer = context;
    lsi_span_buffer **link = &buffers;
    lsi_observe_lock();
    flush(buffer);
    while (*link != buffer)
        link = &(*link)->next;
    *link = buffer->next;
    lsi_observe_unlock();
    own = NULL;
    free(buffer);
}

/* Recorded spans and other threads belong to the parent. */
static void in_child(void)
{
    atomic_store(&lsi_span_wanted, 0);
    lsi_span_forget();
    buffers = own;
    if (own != NULL) {
        own->next = NULL;
        own->depth = 0;
        atomic_store(&own->taken, atomic_load(&own->put));
    }
}

static lsi_fork_guard fork_guard = {.in_child = in_child};

static void prepare(void)
{
    (void)pthread_key_create(&ends_with_thread, end_thread);
    lsi_guard_forks(&fork_guard);
}

void lsi_span_prepare(void)
{
    (void)pthread_once(&once, prepare);
}

/* Memory that is not counted, so that it is not traced. NULL without memory. */
static lsi_span_buffer *make_buffer(void)
{
    lsi_span_prepare();
    lsi_span_buffer *const buffer = calloc(1, sizeof(*buffer));
    if (buffer == NULL)
        return NULL;
    if (prctl(PR_GET_NAME, buffer->name) != 0)
        buffer->name[0] = '\0';
    (void)pthread_setspecific(ends_with_thread, buffer);
    lsi_observe_lock();
    buffer->thread = threads++;
    buffer->next = buffers;
    buffers = buffer;
    lsi_observe_unlock();
    buffer->written_ns = lsi_clock_ns();
    own = buffer;
    return buffer;
}

/* NULL if nothing is to be written. */
static lsi_span_buffer *own_buffer(void)
{
    if (!lsi_span_is_written())
        return NULL;
    return own != NULL ? own : make_buffer();
}

/* A live page shows phases and waiting. */
static bool is_live(lsi_span_kind kind)
{
    return (kind == LSI_SPAN_PHASE || kind == LSI_SPAN_WAIT) &&
           (atomic_load_explicit(&lsi_span_wanted, memory_order_relaxed) &
            LSI_SPAN_TO_LIVE) != 0;
}

/* Whether a span is a part of a collective or a message. */
static bool is_call(uint32_t kind)
{
    return kind == LSI_SPAN_GATHERING || kind == LSI_SPAN_TRANSFER ||
           kind == LSI_SPAN_MESSAGE || kind == LSI_SPAN_GATHER;
}

static void put(lsi_span_buffer *buffer, const lsi_span *span)
{
    const uint64_t n = atomic_load_explicit(&buffer->put, memory_order_relaxed);
    if (n - atomic_load_explicit(&buffer->taken, memory_order_acquire) == SPANS)
        flush_own(buffer);
    buffer->spans[n % SPANS] = *span;
    atomic_store_explicit(&buffer->put, n + 1, memory_order_release);
    /* A program without steps has calls. They are long enough for a clock. */
    if (is_call(span->kind) && lsi_clock_ns() - buffer->written_ns >= SECOND_NS)
        flush_if_named(buffer);
}

/* ---- spans --------------------------------------------------------------- */

void lsi_span_put(lsi_span_kind kind, const char *name, lsi_span span)
{
    lsi_span_buffer *const buffer = own_buffer();
    if (buffer == NULL)
        return;
    span.kind = kind;
    span.name = lsi_name_number(name);
    put(buffer, &span);
}

void lsi_span_end(lsi_span_kind kind, const char *name, uint64_t begin,
                  uint64_t bytes, uint64_t work, uint64_t id)
{
    if (begin != 0)
        lsi_span_put(kind, name,
                     (lsi_span){.begin = begin,
                                .end = lsi_ticks(),
                                .bytes = bytes,
                                .work = work,
                                .id = id});
}

lsi_span_scope lsi_span_enter(lsi_span_kind kind, const char *name,
                              uint64_t bytes, uint64_t work)
{
    lsi_span_buffer *const buffer = own_buffer();
    lsi_span_scope scope = {.begin = lsi_ticks(),
                            .bytes = bytes,
                            .work = work,
                            .name = name,
                            .kind = kind};
    if (is_live(kind))
        lsi_live_enter(kind == LSI_SPAN_PHASE, name);
    if (kind == LSI_SPAN_PHASE && lsi_memory_is_recorded())
        scope.outer = lsi_memory_enter_phase(name);
    if (buffer != NULL && kind <= LSI_SPAN_PHASE)
        buffer->mark = scope.begin;
    if (buffer != NULL && kind == LSI_SPAN_KERNEL)
        scope.id = buffer->layer;
    return scope;
}

void lsi_span_leave_now(const lsi_span_scope *scope)
{
    lsi_span_buffer *const buffer = own_buffer();
    const uint64_t now = lsi_ticks();
    if (is_live(scope->kind))
        lsi_live_leave(scope->kind == LSI_SPAN_PHASE);
    if (scope->kind == LSI_SPAN_PHASE && lsi_memory_is_recorded())
        lsi_memory_leave_phase(scope->outer);
    if (buffer == NULL)
        return;
    if (scope->kind <= LSI_SPAN_PHASE)
        buffer->mark = now;
    put(buffer, &(lsi_span){.begin = scope->begin,
                            .end = now,
                            .bytes = scope->bytes,
                            .work = scope->work,
                            .id = scope->id,
                            .name = number_of_constant(buffer, scope->name),
                            .kind = scope->kind});
}

void lsi_span_enter_layer(const char *name, lsi_layer_pass pass)
{
    lsi_span_buffer *const buffer = own_buffer();
    if (buffer != NULL)
        buffer->layer = lsi_layer_id(lsi_name_number(name), pass);
}

/* Also after the end of tracing. */
void lsi_span_leave_layer(void)
{
    if (own != NULL)
        own->layer = 0;
}

/* Records the kinds of memory whose amount has changed since the last time. */
static void record_memory(lsi_span_buffer *buffer, uint64_t now)
{
    static _Atomic size_t last[LS_MEMORY_TAG_COUNT];
    for (int tag = 0; tag < LS_MEMORY_TAG_COUNT; tag++) {
        ls_memory_stats memory;
        ls_memory_of((ls_memory_tag)tag, &memory);
        if (atomic_exchange_explicit(&last[tag], memory.live_bytes,
                                     memory_order_relaxed) == memory.live_bytes)
            continue;
        put(buffer,
            &(lsi_span){.begin = now,
                        .end = now,
                        .bytes = memory.live_bytes,
                        .name = number_of_constant(
                            buffer, ls_memory_tag_name((ls_memory_tag)tag)),
                        .kind = LSI_SPAN_MEMORY});
    }
}

void lsi_span_operation(const char *name, const char *suffix, uint64_t begin)
{
    lsi_span_buffer *const buffer = own_buffer();
    if (begin == 0 || buffer == NULL)
        return;
    char whole[LSI_NAME_BYTES];
    if (suffix[0] != '\0') {
        snprintf(whole, sizeof(whole), "%s%s", name, suffix);
        name = whole;
    }
    const uint64_t now = lsi_ticks();
    put(buffer,
        &(lsi_span){.begin = begin > buffer->mark ? begin : buffer->mark,
                    .end = now,
                    .name = lsi_name_number(name),
                    .kind = LSI_SPAN_OPERATION});
    record_memory(buffer, now);
}

void lsi_span_step(uint64_t begin, uint64_t number)
{
    lsi_span_buffer *const buffer = own_buffer();
    if (begin == 0 || buffer == NULL)
        return;
    /* The step is the last one, so that a file can end with it. */
    record_memory(buffer, lsi_ticks());
    lsi_span_end(LSI_SPAN_STEP, "step", begin, 0, 0, number);
    const uint64_t waiting =
        atomic_load(&buffer->put) - atomic_load(&buffer->taken);
    if (waiting >= ENOUGH || lsi_clock_ns() - buffer->written_ns >= SECOND_NS)
        flush_own(buffer);
}

/* ---- ranges of users ----------------------------------------------------- */

void ls_range_push_work(const char *name, uint64_t bytes, uint64_t operations)
{
    lsi_span_buffer *const buffer = own_buffer();
    if (lsi_memory_is_recorded())
        lsi_memory_enter_range(name != NULL ? name : "unnamed");
    if (buffer == NULL)
        return;
    if (buffer->depth < OPEN_RANGES)
        buffer->ranges[buffer->depth] = (open_range){
            .begin = buffer->mark = lsi_ticks(),
            .bytes = bytes,
            .work = operations,
            .name = lsi_name_number(name != NULL ? name : "unnamed")};
    buffer->depth++;
}

void ls_range_push(const char *name)
{
    ls_range_push_work(name, 0, 0);
}

void ls_range_pop(void)
{
    lsi_span_buffer *const buffer = own_buffer();
    if (lsi_memory_is_recorded())
        lsi_memory_leave_range();
    if (buffer == NULL || buffer->depth == 0 || --buffer->depth >= OPEN_RANGES)
        return;
    const open_range *const range = &buffer->ranges[buffer->depth];
    buffer->mark = lsi_ticks();
    put(buffer, &(lsi_span){.begin = range->begin,
                            .end = buffer->mark,
                            .bytes = range->bytes,
                            .work = range->work,
                            .name = range->name,
                            .kind = LSI_SPAN_RANGE});
}

bool ls_range_is_recorded(void)
{
    return lsi_span_is_written() || lsi_memory_is_recorded();
}
