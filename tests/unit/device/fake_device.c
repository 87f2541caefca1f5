#include "fake_device.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { COMMANDS = 256, BLOCKS = 256 };

typedef struct block {
    char *outside; /* without any access; NULL: a free place */
    char *inside;
    size_t bytes;  /* as asked for */
    size_t mapped; /* whole pages */
} block;

typedef enum doing { COPY, FILL, RELEASE } doing;

typedef struct command {
    doing what;
    char *dst;
    const char *src;
    size_t bytes;
    int byte;
    lsi_transfer way;
} command;

struct lsi_stream {
    fake_settings is;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    command queue[COMMANDS];
    unsigned given, done;
    bool closing, has_failed;
    unsigned random;
    char sentence[128];
    block blocks[BLOCKS];
    size_t used;
};

fake_settings fake_next;
static lsi_stream *opened; /* the last one, for fake_blocks */

/* ---- memory -------------------------------------------------------------- */

/* The block of an address of the device, whole: all `bytes` are inside it. */
static block *block_of(lsi_stream *s, const char *at, size_t bytes)
{
    for (int i = 0; i < BLOCKS; i++) {
        block *b = &s->blocks[i];
        if (b->outside != NULL && at >= b->outside &&
            at + bytes <= b->outside + b->bytes)
            return b;
    }
    return NULL;
}

static char *reached(lsi_stream *s, const char *at, size_t bytes)
{
    const block *b = block_of(s, at, bytes);
    return b == NULL ? NULL : b->inside + (at - b->outside);
}

static bool map_twice(block *b, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t mapped = (bytes + page - 1) / page * page;
    const int file = memfd_create("fake-device", MFD_CLOEXEC);
    if (file < 0)
        return false;
    void *outside = MAP_FAILED, *inside = MAP_FAILED;
    if (ftruncate(file, (off_t)mapped) == 0) {
        outside = mmap(NULL, mapped, PROT_NONE, MAP_SHARED, file, 0);
        inside =
            mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    close(file);
    if (outside == MAP_FAILED || inside == MAP_FAILED)
        return false;
    memset(inside, 0xA5, mapped); /* contents are undefined, and not zero */
    *b = (block){outside, inside, bytes, mapped};
    return true;
}

static void unmap(lsi_stream *s, block *b)
{
    munmap(b->outside, b->mapped);
    munmap(b->inside, b->mapped);
    s->used -= b->bytes;
    b->outside = NULL;
}

static int fake_allocate(lsi_stream *s, size_t bytes, void **out)
{
    int result = -1;
    pthread_mutex_lock(&s->lock);
    if (s->is.room > 0 && bytes > s->is.room - s->used) {
        result = LSI_DEVICE_FULL;
    } else if (!s->has_failed) {
        block *b = s->blocks;
        while (b < s->blocks + BLOCKS && b->outside != NULL)
            b++;
        if (b < s->blocks + BLOCKS && map_twice(b, bytes)) {
            s->used += bytes;
            *out = b->outside;
            result = 0;
        }
    }
    pthread_mutex_unlock(&s->lock);
    return result;
}

/* ---- the thread ---------------------------------------------------------- */

static void fail(lsi_stream *s, const char *why)
{
    s->has_failed = true;
    snprintf(s->sentence, sizeof(s->sentence), "command %u %s", s->done + 1,
             why);
}

static void copy(lsi_stream *s, const command *c)
{
    char *dst = c->way == LSI_TRANSFER_FROM_DEVICE
                    ? c->dst
                    : reached(s, c->dst, c->bytes);
    const char *src = c->way == LSI_TRANSFER_TO_DEVICE
                          ? c->src
                          : reached(s, c->src, c->bytes);
    if (dst == NULL || src == NULL)
        fail(s, "copies from or to what is no memory of the device");
    else
        memcpy(dst, src, c->bytes);
}

static void carry_out(lsi_stream *s, const command *c)
{
    if (c->what == RELEASE) { /* also after a failure */
        unmap(s, block_of(s, c->dst, 0));
    } else if (!s->has_failed) {
        char *dst = NULL;
        if (s->done + 1 == s->is.failing)
            fail(s, "was told to fail");
        else if (c->what == COPY)
            copy(s, c);
        else if ((dst = reached(s, c->dst, c->bytes)) != NULL)
            memset(dst, c->byte, c->bytes);
        else
            fail(s, "fills what is no memory of the device");
    }
}

static void nap(lsi_stream *s)
{
    s->random = s->random * 1103515245U + 12345U;
    if (s->is.longest_nap > 0)
        usleep((s->random >> 8) % s->is.longest_nap);
}

static void *work(void *argument)
{
    lsi_stream *s = argument;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (s->done == s->given && !s->closing)
            pthread_cond_wait(&s->changed, &s->lock);
        if (s->done == s->given)
            break;
        pthread_mutex_unlock(&s->lock);
        nap(s);
        pthread_mutex_lock(&s->lock);
        carry_out(s, &s->queue[s->done % COMMANDS]);
        s->done++;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static int give(lsi_stream *s, command c)
{
    pthread_mutex_lock(&s->lock);
    while (s->given - s->done == COMMANDS)
        pthread_cond_wait(&s->changed, &s->lock);
    s->queue[s->given++ % COMMANDS] = c;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

/* ---- the table ----------------------------------------------------------- */

static int fake_open(lsi_stream **out)
{
    if (fake_next.refuses != NULL)
        return -1;
    lsi_stream *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return -1;
    s->is = fake_next;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (pthread_create(&s->thread, NULL, work, s) != 0)
        abort();
    opened = s;
    *out = s;
    return 0;
}

static void fake_close(lsi_stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    opened = NULL;
    free(s);
}

static void fake_release(lsi_stream *s, void *released)
{
    give(s, (command){.what = RELEASE, .dst = released});
}

static int fake_copy(lsi_stream *s, void *dst, const void *src, size_t bytes,
                     lsi_transfer way)
{
    return give(s, (command){COPY, dst, src, bytes, 0, way});
}

static int fake_fill(lsi_stream *s, void *dst, int byte, size_t bytes)
{
    return give(
        s, (command){.what = FILL, .dst = dst, .bytes = bytes, .byte = byte});
}

static int fake_wait(lsi_stream *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->done != s->given)
        pthread_cond_wait(&s->changed, &s->lock);
    const bool has_failed = s->has_failed;
    pthread_mutex_unlock(&s->lock);
    return has_failed ? -1 : 0;
}

static const char *fake_error(lsi_stream *s)
{
    return s != NULL ? s->sentence : fake_next.refuses;
}

const lsi_device_table fake_device = {
    .version = LSI_DEVICE_VERSION,
    .name = "fake:0",
    .open = fake_open,
    .close = fake_close,
    .allocate = fake_allocate,
    .release = fake_release,
    .copy = fake_copy,
    .fill = fake_fill,
    .wait = fake_wait,
    .error = fake_error,
};

unsigned fake_blocks(void)
{
    unsigned n = 0;
    pthread_mutex_lock(&opened->lock);
    for (int i = 0; i < BLOCKS; i++)
        n += opened->blocks[i].outside != NULL;
    pthread_mutex_unlock(&opened->lock);
    return n;
}
