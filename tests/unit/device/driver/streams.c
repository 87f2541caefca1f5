/* Streams and events of the stand-in: a thread each, which does as it is told.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "inside.h"

enum { COMMANDS = 128 };

typedef enum doing { COPY, FILL, FREE, RECORD, AWAIT } doing;

typedef struct command {
    doing what;
    CUdeviceptr dst, src; /* of the device, or 0 */
    void *to;             /* the host's */
    const void *from;
    size_t bytes;
    int byte;
    CUevent event;
    unsigned number; /* of the event's records */
} command;

struct CUevent_st {
    CUcontext context;
    unsigned recorded, happened; /* how often it was told to, and did */
    int users;                   /* commands, and who has made it */
    struct timespec at;
};

struct CUstream_st {
    CUcontext context;
    pthread_t thread;
    command queue[COMMANDS];
    unsigned given, done;
    bool closing;
    unsigned random;
};

/* ---- the thread ---------------------------------------------------------- */

static void let_go(CUevent event)
{
    if (--event->users == 0)
        free(event);
}

static void nap(CUstream s, unsigned longest)
{
    s->random = s->random * 1103515245U + 12345U;
    if (longest > 0)
        usleep((s->random >> 8) % longest);
}

/* Unlocked while the bytes move, as other streams move theirs. */
static void touch(CUstream s, const command *c)
{
    char *const dst =
        c->dst != 0 ? standin_reach(s->context, c->dst, c->bytes) : c->to;
    const char *const src =
        c->src != 0 ? standin_reach(s->context, c->src, c->bytes) : c->from;
    if (++standin_all.commands == standin_all.settings.failing || dst == NULL ||
        (c->what == COPY && src == NULL)) {
        const int failure = standin_all.settings.failure;
        s->context->failure = failure == 0 ? ILLEGAL_ADDRESS : failure;
        return;
    }
    pthread_mutex_unlock(&standin_all.lock);
    if (c->what == COPY)
        memcpy(dst, src, c->bytes);
    else
        memset(dst, c->byte, c->bytes);
    pthread_mutex_lock(&standin_all.lock);
}

static void carry_out(CUstream s, const command *c)
{
    switch (c->what) {
    case COPY:
    case FILL:
        if (s->context->failure == 0)
            touch(s, c);
        break;
    case FREE:
        standin_unmap(c->dst);
        break;
    case RECORD:
        clock_gettime(CLOCK_MONOTONIC, &c->event->at);
        c->event->happened = c->number;
        let_go(c->event);
        break;
    case AWAIT:
        while (c->event->happened < c->number)
            pthread_cond_wait(&standin_all.changed, &standin_all.lock);
        let_go(c->event);
        break;
    }
}

static void *work(void *argument)
{
    CUstream s = argument;
    pthread_mutex_lock(&standin_all.lock);
    for (;;) {
        while (s->done == s->given && !s->closing)
            pthread_cond_wait(&standin_all.changed, &standin_all.lock);
        if (s->done == s->given)
            break;
        const command c = s->queue[s->done % COMMANDS];
        const unsigned longest = standin_all.settings.longest_nap;
        pthread_mutex_unlock(&standin_all.lock);
        nap(s, longest);
        pthread_mutex_lock(&standin_all.lock);
        carry_out(s, &c);
        s->done++;
        pthread_cond_broadcast(&standin_all.changed);
    }
    pthread_mutex_unlock(&standin_all.lock);
    free(s);
    return NULL;
}

/* Locked. */
static void give(CUstream s, command c)
{
    while (s->given - s->done == COMMANDS)
        pthread_cond_wait(&standin_all.changed, &standin_all.lock);
    s->queue[s->given++ % COMMANDS] = c;
    pthread_cond_broadcast(&standin_all.changed);
}

/* ---- streams ------------------------------------------------------------- */

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    CUcontext context = NULL;
    const CUresult result = standin_check(&context);
    if (result != 0)
        return result;
    if (flags != LSI_CUDA_STREAM_NON_BLOCKING)
        return INVALID_VALUE;
    CUstream s = calloc(1, sizeof(*s));
    if (s == NULL)
        return OUT_OF_MEMORY;
    s->context = context;
    if (pthread_create(&s->thread, NULL, work, s) != 0)
        abort();
    pthread_mutex_lock(&standin_all.lock);
    standin_all.counts.streams++;
    pthread_mutex_unlock(&standin_all.lock);
    *stream = s;
    return 0;
}

CUresult standin_check_stream(CUstream stream)
{
    CUcontext context = NULL;
    const CUresult result = standin_check(&context);
    if (result != 0)
        return result;
    return stream->context == context ? 0 : INVALID_CONTEXT;
}

void standin_drain(CUstream stream)
{
    while (stream->done != stream->given)
        pthread_cond_wait(&standin_all.changed, &standin_all.lock);
}

/* What destroys or frees does so after a failure, too, which it returns. */
CUresult cuStreamDestroy_v2(CUstream stream)
{
    CUcontext context = NULL;
    CUresult result = standin_current(&context);
    if (result != 0)
        return result;
    if (stream->context != context)
        return INVALID_CONTEXT;
    pthread_mutex_lock(&standin_all.lock);
    result = context->failure;
    stream->closing = true;
    standin_all.counts.streams--;
    (void)pthread_detach(stream->thread); /* which still does what is left */
    pthread_cond_broadcast(&standin_all.changed);
    pthread_mutex_unlock(&standin_all.lock);
    return result;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    const CUresult result = standin_check_stream(stream);
    if (result != 0)
        return result;
    pthread_mutex_lock(&standin_all.lock);
    standin_drain(stream);
    const CUresult failure = stream->context->failure;
    pthread_mutex_unlock(&standin_all.lock);
    return failure;
}

/* ---- events -------------------------------------------------------------- */

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    CUcontext context = NULL;
    const CUresult result = standin_check(&context);
    if (result != 0)
        return result;
    CUevent made = flags == 0 ? calloc(1, sizeof(*made)) : NULL;
    if (made == NULL)
        return flags == 0 ? OUT_OF_MEMORY : INVALID_VALUE;
    *made = (struct CUevent_st){.context = context, .users = 1};
    pthread_mutex_lock(&standin_all.lock);
    standin_all.counts.events++;
    pthread_mutex_unlock(&standin_all.lock);
    *event = made;
    return 0;
}

static CUresult check_event(CUevent event)
{
    CUcontext context = NULL;
    const CUresult result = standin_check(&context);
    if (result != 0)
        return result;
    return event->context == context ? 0 : INVALID_HANDLE;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    CUcontext context = NULL;
    CUresult result = standin_current(&context);
    if (result != 0)
        return result;
    if (event->context != context)
        return INVALID_HANDLE;
    pthread_mutex_lock(&standin_all.lock);
    result = context->failure;
    standin_all.counts.events--;
    let_go(event);
    pthread_mutex_unlock(&standin_all.lock);
    return result;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    CUresult result = standin_check_stream(stream);
    if (result == 0)
        result = check_event(event);
    if (result != 0)
        return result;
    pthread_mutex_lock(&standin_all.lock);
    event->users++;
    give(
        stream,
        (command){.what = RECORD, .event = event, .number = ++event->recorded});
    pthread_mutex_unlock(&standin_all.lock);
    return 0;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    const CUresult result =
        flags == 0 ? standin_check_stream(stream) : INVALID_VALUE;
    if (result != 0)
        return result;
    pthread_mutex_lock(&standin_all.lock);
    event->users++;
    give(stream,
         (command){.what = AWAIT, .event = event, .number = event->recorded});
    pthread_mutex_unlock(&standin_all.lock);
    return 0;
}

CUresult cuEventSynchronize(CUevent event)
{
    const CUresult result = check_event(event);
    if (result != 0)
        return result;
    pthread_mutex_lock(&standin_all.lock);
    while (event->happened < event->recorded)
        pthread_cond_wait(&standin_all.changed, &standin_all.lock);
    const CUresult failure = event->context->failure;
    pthread_mutex_unlock(&standin_all.lock);
    return failure;
}

static double ms_of(struct timespec t)
{
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    CUresult result = check_event(from);
    if (result == 0)
        result = check_event(to);
    if (result != 0)
        return result;
    pthread_mutex_lock(&standin_all.lock);
    if (from->recorded == 0 || to->recorded == 0)
        result = INVALID_HANDLE;
    else if (from->happened < from->recorded || to->happened < to->recorded)
        result = NOT_READY;
    else
        *ms = (float)(ms_of(to->at) - ms_of(from->at));
    pthread_mutex_unlock(&standin_all.lock);
    return result;
}

/* ---- what streams do ----------------------------------------------------- */

/* What is no memory of the device is refused at once. */
static CUresult give_copy(CUstream stream, command c)
{
    CUresult result = standin_check_stream(stream);
    if (result != 0)
        return result;
    pthread_mutex_lock(&standin_all.lock);
    if ((c.dst != 0 && !standin_reach(stream->context, c.dst, c.bytes)) ||
        (c.src != 0 && !standin_reach(stream->context, c.src, c.bytes)) ||
        c.bytes == 0)
        result = INVALID_VALUE;
    else
        give(stream, c);
    pthread_mutex_unlock(&standin_all.lock);
    return result;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes,
                              CUstream stream)
{
    return give_copy(stream,
                     (command){COPY, .dst = dst, .from = src, .bytes = bytes});
}

CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes,
                              CUstream stream)
{
    return give_copy(stream,
                     (command){COPY, .to = dst, .src = src, .bytes = bytes});
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                              CUstream stream)
{
    return give_copy(stream,
                     (command){COPY, .dst = dst, .src = src, .bytes = bytes});
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char byte, size_t bytes,
                         CUstream stream)
{
    return give_copy(stream,
                     (command){FILL, .dst = dst, .byte = byte, .bytes = bytes});
}

CUresult cuMemFreeAsync(CUdeviceptr block, CUstream stream)
{
    CUcontext context = NULL;
    CUresult result = standin_current(&context);
    if (result != 0)
        return result;
    if (standin_all.settings.has_no_pools)
        return NOT_SUPPORTED;
    pthread_mutex_lock(&standin_all.lock);
    result = standin_reach(context, block, 1) == NULL ? INVALID_VALUE
                                                      : context->failure;
    if (result != INVALID_VALUE)
        give(stream, (command){.what = FREE, .dst = block});
    pthread_mutex_unlock(&standin_all.lock);
    return result;
}
