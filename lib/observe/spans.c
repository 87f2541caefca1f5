#include "observe/spans.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/hash.h"
#include "base/memory.h"
#include "lockstep/profile.h"
#include "observe/live.h"
#include "observe/memory_record.h"
#include "observe/span_file.h"

enum {
    SPANS = 1 << 13,   /* of a buffer: 400 KiB */
    ENOUGH = SPANS / 4 /* to be worth writing at the end of a step */
};
enum { NAME_SLOTS = 2 * LSI_SPAN_NAMES, POINTERS = 64, OPEN_RANGES = 64 };

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
    /* How many were ever put in, by the thread; and taken out, under `lock`. */
    _Atomic uint64_t put, taken;
    uint64_t mark; /* when a range or a phase was entered or left last */
    uint64_t written_ns;
    struct {
        const char *name;
        uint32_t number;
    } pointers[POINTERS]; /* names that stay where they are */
    open_range ranges[OPEN_RANGES];
    unsigned depth; /* of ranges; those that are too deep are not recorded */
    lsi_span spans[SPANS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static lsi_span_buffer *buffers;
static uint32_t threads;
static pthread_key_t ends_with_thread;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local lsi_span_buffer *own;

/* ---- names --------------------------------------------------------------- */

static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;
static char names[LSI_SPAN_NAMES][LSI_SPAN_NAME_BYTES];
static _Atomic uint32_t n_names;
static _Atomic uint32_t slots[NAME_SLOTS]; /* 1 + a number; 0: free */

const char *lsi_span_name(uint32_t number)
{
    return number < atomic_load(&n_names) ? names[number] : NULL;
}

uint32_t lsi_span_names(void)
{
    return atomic_load(&n_names);
}

/* The slot of a name: its own, or the free one where it belongs. */
static _Atomic uint32_t *find_slot(const char *name)
{
    size_t at = lsi_hash(LSI_HASH_START, name, strlen(name)) % NAME_SLOTS;
    for (;; at = (at + 1) % NAME_SLOTS) {
        const uint32_t number = atomic_load(&slots[at]);
        if (number == 0 || strcmp(names[number - 1], name) == 0)
            return &slots[at];
    }
}

/* The last number is kept for all names that there is no more room for. */
static uint32_t add_name(const char *name)
{
    pthread_mutex_lock(&names_lock);
    _Atomic uint32_t *slot = find_slot(name);
    uint32_t number = atomic_load(slot);
    const uint32_t n = atomic_load(&n_names);
    if (number == 0 && n == LSI_SPAN_NAMES) {
        number = LSI_SPAN_NAMES;
    } else if (number == 0) {
        snprintf(names[n], sizeof(names[n]), "%s",
                 n + 1 == LSI_SPAN_NAMES ? "other" : name);
        number = n + 1;
        atomic_store(&n_names, number);
        atomic_store(slot, number);
    }
    pthread_mutex_unlock(&names_lock);
    return number - 1;
}

/* Long names are cut, between two letters of UTF-8. */
static uint32_t number_of(const char *name)
{
    char cut[LSI_SPAN_NAME_BYTES];
    if (strlen(name) >= sizeof(cut)) {
        size_t n = sizeof(cut) - 1;
        while (n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80)
            n--;
        memcpy(cut, name, n);
        cut[n] = '\0';
        name = cut;
    }
    const uint32_t number = atomic_load(find_slot(name));
    return number != 0 ? number - 1 : add_name(name);
}

/* The same of a name that stays where it is. */
static uint32_t number_of_constant(lsi_span_buffer *buffer, const char *name)
{
    const size_t at = ((uintptr_t)name >> 3 ^ (uintptr_t)name) % POINTERS;
    if (buffer->pointers[at].name != name) {
        buffer->pointers[at].number = number_of(name);
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
    pthread_mutex_lock(&lock);
    flush(buffer);
    pthread_mutex_unlock(&lock);
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
    pthread_mutex_lock(&lock);
    flush(buffer);
    while (*link != buffer)
        link = &(*link)->next;
    *link = buffer->next;
    pthread_mutex_unlock(&lock);
    own = NULL;
    free(buffer);
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
    pthread_mutex_lock(&names_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&names_lock);
    pthread_mutex_unlock(&lock);
}

/* What has been recorded is the parent's, and so are the other threads. */
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
    after_fork();
}

static void prepare(void)
{
    (void)pthread_key_create(&ends_with_thread, end_thread);
    (void)pthread_atfork(before_fork, after_fork, in_child);
}

void lsi_span_lock(void)
{
    pthread_once(&once, prepare);
    pthread_mutex_lock(&lock);
}

void lsi_span_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* Memory that is not counted: what is traced is. NULL if there is none. */
static lsi_span_buffer *make_buffer(void)
{
    pthread_once(&once, prepare);
    lsi_span_buffer *const buffer = calloc(1, sizeof(*buffer));
    if (buffer == NULL)
        return NULL;
    if (prctl(PR_GET_NAME, buffer->name) != 0)
        buffer->name[0] = '\0';
    (void)pthread_setspecific(ends_with_thread, buffer);
    pthread_mutex_lock(&lock);
    buffer->thread = threads++;
    buffer->next = buffers;
    buffers = buffer;
    pthread_mutex_unlock(&lock);
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

/* Phases and waiting are what a page shows that others look at. */
static bool is_live(lsi_span_kind kind)
{
    return (kind == LSI_SPAN_PHASE || kind == LSI_SPAN_WAIT) &&
           (atomic_load_explicit(&lsi_span_wanted, memory_order_relaxed) &
            LSI_SPAN_TO_LIVE) != 0;
}

static void put(lsi_span_buffer *buffer, const lsi_span *span)
{
    const uint64_t n = atomic_load_explicit(&buffer->put, memory_order_relaxed);
    if (n - atomic_load_explicit(&buffer->taken, memory_order_acquire) == SPANS)
        flush_own(buffer);
    buffer->spans[n % SPANS] = *span;
    atomic_store_explicit(&buffer->put, n + 1, memory_order_release);
}

/* ---- spans --------------------------------------------------------------- */

void lsi_span_put(lsi_span_kind kind, const char *name, lsi_span span)
{
    lsi_span_buffer *const buffer = own_buffer();
    if (buffer == NULL)
        return;
    span.kind = kind;
    span.name = number_of(name);
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
    const uint64_t now = lsi_ticks();
    if (is_live(kind))
        lsi_live_enter(kind == LSI_SPAN_PHASE, name);
    if (kind == LSI_SPAN_PHASE && lsi_memory_is_recorded())
        lsi_memory_enter_phase(name);
    if (buffer != NULL && kind <= LSI_SPAN_PHASE)
        buffer->mark = now;
    return (lsi_span_scope){
        .begin = now, .bytes = bytes, .work = work, .name = name, .kind = kind};
}

void lsi_span_leave_now(const lsi_span_scope *scope)
{
    lsi_span_buffer *const buffer = own_buffer();
    const uint64_t now = lsi_ticks();
    if (is_live(scope->kind))
        lsi_live_leave(scope->kind == LSI_SPAN_PHASE);
    if (scope->kind == LSI_SPAN_PHASE && lsi_memory_is_recorded())
        lsi_memory_leave_phase();
    if (buffer == NULL)
        return;
    if (scope->kind <= LSI_SPAN_PHASE)
        buffer->mark = now;
    put(buffer, &(lsi_span){.begin = scope->begin,
                            .end = now,
                            .bytes = scope->bytes,
                            .work = scope->work,
                            .name = number_of_constant(buffer, scope->name),
                            .kind = scope->kind});
}

/* The kinds of memory of which another amount is in use than was last told. */
static void look_at_memory(lsi_span_buffer *buffer, uint64_t now)
{
    static _Atomic size_t told[LS_MEMORY_TAG_COUNT];
    for (int tag = 0; tag < LS_MEMORY_TAG_COUNT; tag++) {
        ls_memory_stats memory;
        ls_memory_of((ls_memory_tag)tag, &memory);
        if (atomic_exchange_explicit(&told[tag], memory.live_bytes,
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
    char whole[LSI_SPAN_NAME_BYTES];
    if (suffix[0] != '\0') {
        snprintf(whole, sizeof(whole), "%s%s", name, suffix);
        name = whole;
    }
    const uint64_t now = lsi_ticks();
    put(buffer,
        &(lsi_span){.begin = begin > buffer->mark ? begin : buffer->mark,
                    .end = now,
                    .name = number_of(name),
                    .kind = LSI_SPAN_OPERATION});
    look_at_memory(buffer, now);
}

void lsi_span_step(uint64_t begin, uint64_t number)
{
    lsi_span_buffer *const buffer = own_buffer();
    if (begin == 0 || buffer == NULL)
        return;
    /* The step is the last one, so that a file can end with it. */
    look_at_memory(buffer, lsi_ticks());
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
        buffer->ranges[buffer->depth] =
            (open_range){.begin = buffer->mark = lsi_ticks(),
                         .bytes = bytes,
                         .work = operations,
                         .name = number_of(name != NULL ? name : "unnamed")};
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
