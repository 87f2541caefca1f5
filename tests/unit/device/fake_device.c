#include "fake_device.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "lockstep/status.h"

enum { BLOCKS = 1 << 14, COMMANDS = 256, ARENA = 1 << 30 };

typedef struct block {
    char *begin; /* NULL: a free place */
    size_t bytes;
} block;

typedef enum doing { COPY, FILL, POISON, RELEASE, RECORD, AWAIT, CALL } doing;

typedef struct command {
    doing what;
    char *dst;
    const char *src;
    size_t bytes;
    int byte;
    lsi_transfer way;
    lsi_device_event *event;
    unsigned occurrence;
    int (*fn)(void *arguments);
    void *arguments;
} command;

/* One lock and one condition for all of a device: tests are small. */
struct lsi_device_context {
    fake_settings is;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char *arena;      /* as the device knows it */
    char *inside;     /* the same memory, for tests only */
    size_t end;       /* of what has ever been a block, in the arena */
    size_t used;      /* bytes of blocks, as asked for */
    unsigned working; /* streams that have the arena open */
    unsigned done;    /* commands, of all streams */
    bool has_failed;
    char sentence[256];
    block blocks[BLOCKS];
    int places; /* of those that have ever been used */
};

struct lsi_device_stream {
    lsi_device_context *of;
    pthread_t thread;
    command queue[COMMANDS];
    unsigned given, taken;
    bool closing;
    unsigned random;
};

struct lsi_device_event {
    lsi_device_context *of;
    unsigned recorded, happened;
    struct timespec at;
};

fake_settings fake_next;
static lsi_device_context *opened; /* the last one, for fake_blocks */

/* ---- memory -------------------------------------------------------------- */

static size_t whole_pages(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* Of what has ever been a block; the host has no access when nobody works. */
static void open_arena(lsi_device_context *of)
{
    if (of->working++ == 0 && of->end > 0 &&
        mprotect(of->arena, of->end, PROT_READ | PROT_WRITE) != 0)
        abort();
}

static void close_arena(lsi_device_context *of)
{
    if (--of->working == 0 && of->end > 0 &&
        mprotect(of->arena, of->end, PROT_NONE) != 0)
        abort();
}

/* The block that all these bytes are inside of. */
static block *block_of(lsi_device_context *of, const char *at, size_t bytes)
{
    for (int i = 0; i < of->places; i++) {
        block *b = &of->blocks[i];
        if (b->begin != NULL && at >= b->begin &&
            at + bytes <= b->begin + b->bytes)
            return b;
    }
    return NULL;
}

/* A page at least lies between two blocks. */
static bool is_free(const lsi_device_context *of, const char *from,
                    const char *to)
{
    for (int i = 0; i < of->places; i++) {
        const block *b = &of->blocks[i];
        if (b->begin != NULL && b->begin < to &&
            b->begin + whole_pages(b->bytes + 1) > from)
            return false;
    }
    return true;
}

static char *find_room(lsi_device_context *of, size_t bytes)
{
    const size_t page = whole_pages(1), mapped = whole_pages(bytes + 1);
    for (int i = 0; i < of->places;
         i++) { /* behind some block, if not at first */
        const block *b = &of->blocks[i];
        char *at = b->begin != NULL
                       ? b->begin + whole_pages(b->bytes + 1) + page
                       : NULL;
        if (at != NULL && at + mapped <= of->arena + ARENA &&
            is_free(of, at, at + mapped))
            return at;
    }
    return is_free(of, of->arena, of->arena + mapped) ? of->arena : NULL;
}

static int give(lsi_device_stream *s, command c);

static int place_block(lsi_device_context *of, size_t bytes, void **out)
{
    if (of->is.room > 0 && bytes > of->is.room - of->used)
        return LSI_DEVICE_FULL;
    block *b = of->blocks;
    while (b < of->blocks + of->places && b->begin != NULL)
        b++;
    char *at = bytes < ARENA ? find_room(of, bytes) : NULL;
    if (at == NULL || b == of->blocks + BLOCKS)
        return LSI_DEVICE_FULL;
    const size_t end = (size_t)(at - of->arena) + whole_pages(bytes + 1);
    if (of->working > 0 && end > of->end &&
        mprotect(of->arena + of->end, end - of->end, PROT_READ | PROT_WRITE) !=
            0)
        abort();
    of->end = end > of->end ? end : of->end;
    of->places += b == of->blocks + of->places;
    *b = (block){at, bytes};
    of->used += bytes;
    *out = at;
    return 0;
}

static int fake_allocate(lsi_device_stream *s, size_t bytes, void **out)
{
    pthread_mutex_lock(&s->of->lock);
    const int result = s->of->has_failed ? -1 : place_block(s->of, bytes, out);
    pthread_mutex_unlock(&s->of->lock);
    return result != 0 ? result /* contents are undefined, and not zero */
                       : give(s, (command){.what = POISON,
                                           .dst = *out,
                                           .bytes = bytes,
                                           .byte = 0xA5});
}

static void fake_release(lsi_device_stream *s, void *released)
{
    give(s, (command){.what = RELEASE, .dst = released});
}

static int fake_pin(lsi_device_context *of, size_t bytes, void **out)
{
    (void)of;
    *out = malloc(bytes);
    return *out != NULL ? 0 : -1;
}

static void fake_unpin(lsi_device_context *of, void *pinned)
{
    (void)of;
    free(pinned);
}

/* ---- the thread ---------------------------------------------------------- */

static void fail(lsi_device_context *of, const char *why)
{
    of->has_failed = true;
    snprintf(of->sentence, sizeof(of->sentence), "command %u %s", of->done,
             why);
}

static void release(lsi_device_context *of, const char *at)
{
    block *b = block_of(of, at, 0);
    of->used -= b->bytes;
    b->begin = NULL;
}

static void copy(lsi_device_context *of, const command *c)
{
    const bool here = c->way == LSI_TRANSFER_FROM_DEVICE ||
                      block_of(of, c->dst, c->bytes) != NULL;
    const bool there = c->way == LSI_TRANSFER_TO_DEVICE ||
                       block_of(of, c->src, c->bytes) != NULL;
    if (!here || !there)
        fail(of, "copies from or to what is no memory of the device");
    else
        memcpy(c->dst, c->src, c->bytes);
}

static void fill(lsi_device_context *of, const command *c)
{
    if (block_of(of, c->dst, c->bytes) == NULL)
        fail(of, "fills what is no memory of the device");
    else
        memset(c->dst, c->byte, c->bytes);
}

/* Without the lock while it computes. */
static void call(lsi_device_context *of, const command *c)
{
    pthread_mutex_unlock(&of->lock);
    const int result = c->fn(c->arguments);
    pthread_mutex_lock(&of->lock);
    if (result != 0)
        fail(of, ls_last_error());
}

static void carry_out(lsi_device_context *of, const command *c)
{
    const bool counts = c->what == COPY || c->what == FILL || c->what == CALL;
    of->done += counts;
    if (of->has_failed)
        return;
    open_arena(of);
    if (counts && of->done == of->is.failing)
        fail(of, "was told to fail");
    else if (c->what == COPY)
        copy(of, c);
    else if (c->what == FILL || c->what == POISON)
        fill(of, c);
    else if (c->what == CALL)
        call(of, c);
    close_arena(of);
}

/* Also after a failure. */
static void synchronise(lsi_device_context *of, const command *c)
{
    if (c->what == RELEASE) {
        release(of, c->dst);
    } else if (c->what == RECORD) {
        clock_gettime(CLOCK_MONOTONIC, &c->event->at);
        c->event->happened = c->occurrence;
    } else if (c->what == AWAIT) {
        while (c->event->happened < c->occurrence)
            pthread_cond_wait(&of->changed, &of->lock);
    }
}

static void nap(lsi_device_stream *s)
{
    s->random = s->random * 1103515245U + 12345U;
    if (s->of->is.longest_nap > 0)
        usleep((s->random >> 8) % s->of->is.longest_nap);
}

static void *work(void *argument)
{
    lsi_device_stream *s = argument;
    lsi_device_context *of = s->of;
    pthread_mutex_lock(&of->lock);
    for (;;) {
        while (s->taken == s->given && !s->closing)
            pthread_cond_wait(&of->changed, &of->lock);
        if (s->taken == s->given)
            break;
        pthread_mutex_unlock(&of->lock);
        nap(s);
        pthread_mutex_lock(&of->lock);
        const command *c = &s->queue[s->taken % COMMANDS];
        carry_out(of, c);
        synchronise(of, c);
        free(c->arguments);
        s->taken++;
        pthread_cond_broadcast(&of->changed);
    }
    pthread_mutex_unlock(&of->lock);
    return NULL;
}

static int give(lsi_device_stream *s, command c)
{
    pthread_mutex_lock(&s->of->lock);
    while (s->given - s->taken == COMMANDS)
        pthread_cond_wait(&s->of->changed, &s->of->lock);
    s->queue[s->given++ % COMMANDS] = c;
    pthread_cond_broadcast(&s->of->changed);
    pthread_mutex_unlock(&s->of->lock);
    return 0;
}

int fake_give(lsi_device_stream *s, int (*fn)(void *arguments), void *arguments)
{
    return give(s, (command){.what = CALL, .fn = fn, .arguments = arguments});
}

static int fake_copy(lsi_device_stream *s, void *dst, const void *src,
                     size_t bytes, lsi_transfer way)
{
    return give(
        s,
        (command){
            .what = COPY, .dst = dst, .src = src, .bytes = bytes, .way = way});
}

static int fake_fill(lsi_device_stream *s, void *dst, int byte, size_t bytes)
{
    return give(
        s, (command){.what = FILL, .dst = dst, .bytes = bytes, .byte = byte});
}

static int fake_wait(lsi_device_stream *s)
{
    pthread_mutex_lock(&s->of->lock);
    while (s->taken != s->given)
        pthread_cond_wait(&s->of->changed, &s->of->lock);
    const bool has_failed = s->of->has_failed;
    pthread_mutex_unlock(&s->of->lock);
    return has_failed ? -1 : 0;
}

/* ---- events -------------------------------------------------------------- */

static int fake_event_make(lsi_device_context *of, lsi_device_event **out)
{
    *out = calloc(1, sizeof(**out));
    if (*out == NULL)
        return -1;
    (*out)->of = of;
    return 0;
}

static void fake_event_free(lsi_device_event *event)
{
    free(event);
}

static int fake_event_record(lsi_device_event *event, lsi_device_stream *s)
{
    return give(s, (command){.what = RECORD,
                             .event = event,
                             .occurrence = ++event->recorded});
}

static int fake_event_await(lsi_device_event *event, lsi_device_stream *s)
{
    return give(s, (command){.what = AWAIT,
                             .event = event,
                             .occurrence = event->recorded});
}

static int fake_event_elapsed(lsi_device_event *from, lsi_device_event *to,
                              double *ms)
{
    lsi_device_context *of = from->of;
    pthread_mutex_lock(&of->lock);
    while (from->happened < from->recorded || to->happened < to->recorded)
        pthread_cond_wait(&of->changed, &of->lock);
    *ms = 1e3 * (double)(to->at.tv_sec - from->at.tv_sec) +
          1e-6 * (double)(to->at.tv_nsec - from->at.tv_nsec);
    pthread_mutex_unlock(&of->lock);
    return 0;
}

/* ---- devices ------------------------------------------------------------- */

static int fake_count(int *n)
{
    *n = 8;
    return 0;
}

static int fake_describe(int index, lsi_device_facts *out)
{
    *out = (lsi_device_facts){.memory = ARENA};
    snprintf(out->name, sizeof(out->name), "fake device %d", index);
    return 0;
}

static int fake_open(int index, lsi_device_context **out)
{
    (void)index;
    lsi_device_context *of =
        fake_next.refuses == NULL ? calloc(1, sizeof(*of)) : NULL;
    if (of == NULL)
        return -1;
    of->is = fake_next;
    pthread_mutex_init(&of->lock, NULL);
    pthread_cond_init(&of->changed, NULL);
    const int file = memfd_create("fake-device", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, ARENA) != 0)
        abort();
    of->arena = mmap(NULL, ARENA, PROT_NONE, MAP_SHARED, file, 0);
    of->inside = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (of->arena == MAP_FAILED || of->inside == MAP_FAILED)
        abort();
    close(file);
    *out = opened = of;
    return 0;
}

static void fake_close(lsi_device_context *of)
{
    munmap(of->arena, ARENA);
    munmap(of->inside, ARENA);
    pthread_cond_destroy(&of->changed);
    pthread_mutex_destroy(&of->lock);
    opened = NULL;
    free(of);
}

static const char *fake_error(const lsi_device_context *of)
{
    return of != NULL ? of->sentence : fake_next.refuses;
}

static int fake_stream_open(lsi_device_context *of, lsi_device_stream **out)
{
    lsi_device_stream *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return -1;
    s->of = of;
    if (pthread_create(&s->thread, NULL, work, s) != 0)
        abort();
    *out = s;
    return 0;
}

static void fake_stream_close(lsi_device_stream *s)
{
    pthread_mutex_lock(&s->of->lock);
    s->closing = true;
    pthread_cond_broadcast(&s->of->changed);
    pthread_mutex_unlock(&s->of->lock);
    pthread_join(s->thread, NULL);
    free(s);
}

const lsi_device_table fake_device = {
    .version = LSI_DEVICE_VERSION,
    .kind = "fake",
    .count = fake_count,
    .describe = fake_describe,
    .open = fake_open,
    .close = fake_close,
    .error = fake_error,
    .stream_open = fake_stream_open,
    .stream_close = fake_stream_close,
    .wait = fake_wait,
    .event_make = fake_event_make,
    .event_free = fake_event_free,
    .event_record = fake_event_record,
    .event_await = fake_event_await,
    .event_elapsed = fake_event_elapsed,
    .allocate = fake_allocate,
    .release = fake_release,
    .pin = fake_pin,
    .unpin = fake_unpin,
    .copy = fake_copy,
    .fill = fake_fill,
    .operations = &fake_operations,
};

void *device_data(const void *address)
{
    const char *at = address;
    if (opened == NULL || at < opened->arena || at >= opened->arena + ARENA)
        return NULL;
    return opened->inside + (at - opened->arena);
}

unsigned fake_blocks(void)
{
    unsigned n = 0;
    pthread_mutex_lock(&opened->lock);
    for (int i = 0; i < opened->places; i++)
        n += opened->blocks[i].begin != NULL;
    pthread_mutex_unlock(&opened->lock);
    return n;
}
