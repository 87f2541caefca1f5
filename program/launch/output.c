/*
 * A ring buffer between the loop that fills it and the thread that empties it.
 */
#include "launch/output.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/held.h"
#include "base/printable.h"
#include "base/thread.h"

struct lsi_sink {
    int fd, wake;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool has_writer; /* the thread, which starts with the first byte */
    bool abandoned;  /* the writer, as the last user, frees the sink */
    lsi_sink_state state;
    bool in_line; /* the latest data have no line end */
    size_t begin; /* start of the waiting bytes in the ring */
    char ring[LSI_SINK_BYTES];
};

/* ---- the writer ------------------------------------------------------- */

/*
 * Bytes to write next: up to PIPE_BUF, which a pipe accepts in one piece while
 * other processes write, and whole lines if possible.
 */
static size_t next_piece(const lsi_sink *sink)
{
    size_t bytes = sink->state.waiting;
    if (bytes > LSI_SINK_BYTES - sink->begin)
        bytes = LSI_SINK_BYTES - sink->begin;
    if (bytes > PIPE_BUF)
        bytes = PIPE_BUF;
    const char *piece = sink->ring + sink->begin;
    const char *line_end = memrchr(piece, '\n', bytes);
    return line_end == NULL ? bytes : (size_t)(line_end - piece) + 1;
}

static void notify(const lsi_sink *sink)
{
    const uint64_t one = 1;
    if (sink->wake < 0)
        return;
    const ssize_t written = write(sink->wake, &one, sizeof(one));
    (void)written; /* a full counter is readable anyway */
}

/* Waits on a descriptor that does not block; bytes, or -1 and errno. */
static ssize_t write_some(int fd, const char *data, size_t bytes)
{
    struct pollfd polled = {.fd = fd, .events = POLLOUT};
    ssize_t written;
    while ((written = write(fd, data, bytes)) < 0) {
        if (errno == EAGAIN)
            (void)poll(&polled, 1, -1);
        else if (errno != EINTR)
            return -1;
    }
    return written;
}

/* A sink that was given up meanwhile has nothing to account for. */
static void account(lsi_sink *sink, ssize_t written, size_t tried, int error)
{
    lsi_sink_state *state = &sink->state;
    assert(lsi_mutex_held(&sink->lock));
    if (state->gone)
        return;
    if (written < 0 && error == EPIPE) {
        state->gone = true;
        state->waiting = 0;
        return;
    }
    if (written < 0 && state->error == 0)
        state->error = error;
    const size_t done = written < 0 ? tried : (size_t)written;
    assert(done <= tried && tried <= state->waiting);
    sink->begin = (sink->begin + done) % LSI_SINK_BYTES;
    state->waiting -= done;
    state->written += written < 0 ? 0 : done;
}

static void release(lsi_sink *sink)
{
    pthread_cond_destroy(&sink->changed);
    pthread_mutex_destroy(&sink->lock);
    free(sink);
}

static void *write_all(void *context)
{
    lsi_sink *sink = context;
    pthread_mutex_lock(&sink->lock);
    while (!sink->abandoned && !sink->state.gone) {
        if (sink->state.waiting == 0) {
            pthread_cond_wait(&sink->changed, &sink->lock);
            continue;
        }
        const char *piece = sink->ring + sink->begin;
        const size_t bytes = next_piece(sink);
        pthread_mutex_unlock(&sink->lock);
        const ssize_t written = write_some(sink->fd, piece, bytes);
        const int error = errno;
        pthread_mutex_lock(&sink->lock);
        account(sink, written, bytes, error);
        notify(sink);
    }
    sink->has_writer = false;
    const bool last = sink->abandoned;
    pthread_mutex_unlock(&sink->lock);
    if (last)
        release(sink);
    return NULL;
}

/* ---- one sink --------------------------------------------------------- */

ls_status lsi_sink_new(int fd, int wake, lsi_sink **out)
{
    lsi_sink *sink = calloc(1, sizeof(*sink));
    if (sink == NULL)
        return lsi_fail(LS_ERR_MEMORY,
                        "not enough memory for an output buffer");
    sink->fd = fd;
    sink->wake = wake;
    pthread_mutex_init(&sink->lock, NULL);
    pthread_cond_init(&sink->changed, NULL);
    *out = sink;
    return LS_OK;
}

void lsi_sink_free(lsi_sink *sink)
{
    if (sink == NULL)
        return;
    pthread_mutex_lock(&sink->lock);
    const bool last = !sink->has_writer;
    sink->abandoned = true;
    sink->wake = -1;
    pthread_cond_signal(&sink->changed);
    pthread_mutex_unlock(&sink->lock);
    if (last)
        release(sink);
}

lsi_sink_state lsi_sink_get_state(lsi_sink *sink)
{
    pthread_mutex_lock(&sink->lock);
    const lsi_sink_state state = sink->state;
    pthread_mutex_unlock(&sink->lock);
    return state;
}

/* Without a thread (a limit on threads) this may block. */
static void wake_writer(lsi_sink *sink)
{
    assert(lsi_mutex_held(&sink->lock));
    if (sink->has_writer) {
        pthread_cond_signal(&sink->changed);
        return;
    }
    sink->has_writer = lsi_thread_watch(write_all, sink);
    while (!sink->has_writer && sink->state.waiting > 0) {
        const size_t bytes = next_piece(sink);
        const ssize_t written =
            write_some(sink->fd, sink->ring + sink->begin, bytes);
        account(sink, written, bytes, errno);
    }
}

static void add(lsi_sink *sink, const char *data, size_t bytes)
{
    assert(lsi_mutex_held(&sink->lock));
    assert(bytes <= LSI_SINK_BYTES - sink->state.waiting);
    const size_t end = (sink->begin + sink->state.waiting) % LSI_SINK_BYTES;
    const size_t room = LSI_SINK_BYTES - end;
    const size_t first = bytes < room ? bytes : room;
    memcpy(sink->ring + end, data, first);
    memcpy(sink->ring, data + first, bytes - first);
    sink->state.waiting += bytes;
}

static bool put(lsi_sink *sink, const char *data, size_t bytes, bool fresh)
{
    pthread_mutex_lock(&sink->lock);
    const size_t ends = fresh && sink->in_line ? 1 : 0;
    const bool taken = !sink->state.gone &&
                       bytes + ends <= LSI_SINK_BYTES - sink->state.waiting;
    if (taken && bytes > 0) {
        add(sink, "\n", ends);
        add(sink, data, bytes);
        sink->in_line = data[bytes - 1] != '\n';
        wake_writer(sink);
    }
    pthread_mutex_unlock(&sink->lock);
    return taken;
}

bool lsi_sink_put(lsi_sink *sink, const char *data, size_t bytes)
{
    return put(sink, data, bytes, false);
}

bool lsi_sink_put_line(lsi_sink *sink, const char *data, size_t bytes)
{
    return put(sink, data, bytes, true);
}

bool lsi_sink_is_stuck(lsi_sink *sink)
{
    struct pollfd polled = {.fd = sink->fd, .events = POLLOUT};
    return lsi_sink_get_state(sink).waiting > 0 && poll(&polled, 1, 0) == 0;
}

void lsi_sink_give_up(lsi_sink *sink)
{
    pthread_mutex_lock(&sink->lock);
    sink->state.waiting = 0;
    sink->state.gone = true;
    pthread_cond_signal(&sink->changed);
    pthread_mutex_unlock(&sink->lock);
}

/* ---- both ------------------------------------------------------------- */

static bool is_one_file(int a, int b)
{
    struct stat first, second;
    return fstat(a, &first) == 0 && fstat(b, &second) == 0 &&
           first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

ls_status lsi_output_open(lsi_output *output)
{
    *output = (lsi_output){.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (output->wake < 0)
        return lsi_fail_errno(
            LS_ERR_SYSTEM,
            "cannot create an eventfd for the output of the ranks");
    LS_TRY(lsi_sink_new(STDOUT_FILENO, output->wake, &output->sinks[0]));
    if (is_one_file(STDOUT_FILENO, STDERR_FILENO))
        output->sinks[1] = output->sinks[0]; /* keeps lines in order */
    else
        LS_TRY(lsi_sink_new(STDERR_FILENO, output->wake, &output->sinks[1]));
    return LS_OK;
}

void lsi_output_close(lsi_output *output)
{
    lsi_sink_free(output->sinks[0]);
    if (output->sinks[1] != output->sinks[0])
        lsi_sink_free(output->sinks[1]);
    close(output->wake);
}

bool lsi_output_is_empty(const lsi_output *output)
{
    return lsi_sink_get_state(output->sinks[0]).waiting == 0 &&
           lsi_sink_get_state(output->sinks[1]).waiting == 0;
}

void lsi_output_print(const lsi_output *output, const char *format, ...)
{
    static const char name[] = "lockstep: ";
    char message[1024], text[1024];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    memcpy(text, name, sizeof(name));
    lsi_printable(text + sizeof(name) - 1, sizeof(text) - sizeof(name),
                  message);
    const size_t used = strlen(text);
    text[used] = '\n';
    (void)lsi_sink_put_line(output->sinks[1], text, used + 1);
}
