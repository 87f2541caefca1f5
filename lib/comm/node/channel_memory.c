/*
 * The channels to ranks of this node: threads of this process, and processes
 * that map the same memory.
 *
 * A stream carries, for each message, an envelope and then the data, padded to
 * UNIT bytes so that an envelope never wraps around the end of the ring.
 * The sender writes as far as there is room and the receiver reads as far as
 * there is something, so a message may be larger than the ring.
 *
 * `head` and `tail` count bytes and never go back. Each is written by one side
 * (after its plain stores or loads of the data) and read by the other.
 *
 * process_vm_readv copies straight from another process, if the kernel allows
 * it (remote.c).
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/error.h"
#include "comm/health/mismatch.h"
#include "comm/node/copy.h"
#include "comm/node/transport.h"
#include "comm/state/bell.h"

enum { UNIT = sizeof(lsi_envelope) };

/* Moving in portions lets both sides work at once. */
enum { PORTION = 16 * 1024 };

static size_t padded(size_t bytes)
{
    return (bytes + UNIT - 1) / UNIT * UNIT;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- the ring ------------------------------------------------------------ */

static void ring_write(const ls_group *group, lsi_channel *channel,
                       uint64_t position, const void *data, size_t bytes)
{
    const size_t capacity = group->memory.layout.channel_bytes;
    const size_t at = (size_t)(position % capacity);
    const size_t first = least(bytes, capacity - at);
    assert(bytes <= capacity);
    const lsi_node_memory *const node = group->memory.node;
    lsi_copy_out(node, channel->data + at, data, first);
    lsi_copy_out(node, channel->data, (const unsigned char *)data + first,
                 bytes - first);
}

static void ring_read(const ls_group *group, const lsi_channel *channel,
                      uint64_t position, void *data, size_t bytes)
{
    const size_t capacity = group->memory.layout.channel_bytes;
    const size_t at = (size_t)(position % capacity);
    const size_t first = least(bytes, capacity - at);
    assert(bytes <= capacity);
    memcpy(data, channel->data + at, first);
    memcpy((unsigned char *)data + first, channel->data, bytes - first);
}

/* Bytes that this end may write or read now: acquires the other's position. */
static size_t available(const ls_group *group, const lsi_stream *stream)
{
    const size_t capacity = group->memory.layout.channel_bytes;
    const size_t filled =
        stream->receives
            ? (size_t)(atomic_load(&stream->channel->head) - stream->position)
            : (size_t)(stream->position - atomic_load(&stream->channel->tail));
    assert(filled <= capacity);
    return stream->receives ? filled : capacity - filled;
}

static void advance(ls_group *group, lsi_stream *stream, size_t bytes)
{
    _Atomic uint64_t *own =
        stream->receives ? &stream->channel->tail : &stream->channel->head;
    stream->position += bytes;
    group->activity++;
    assert(atomic_load(own) < stream->position);
    /* Releases the bytes that were written, or the room they were read from. */
    atomic_store(own, stream->position);
    lsi_wake_rank(group, stream->peer);
}

/* ---- moving -------------------------------------------------------------- */

/* Whether the envelope has moved now. */
static ls_status move_envelope(ls_group *group, lsi_stream *stream,
                               lsi_message *message)
{
    assert(!message->opened && message->moved == 0);
    if (available(group, stream) < UNIT)
        return LS_IN_PROGRESS;
    if (stream->receives) {
        lsi_envelope arrived;
        ring_read(group, stream->channel, stream->position, &arrived, UNIT);
        LS_TRY(lsi_check_envelope(group, stream, message, &arrived));
        stream->position += UNIT; /* announced with the first data */
    } else {
        ring_write(group, stream->channel, stream->position, &message->envelope,
                   UNIT);
        stream->position += UNIT;
    }
    message->opened = true;
    if (message->envelope.bytes == 0)
        advance(group, stream, 0);
    return LS_OK;
}

static ls_status peek(ls_group *group, lsi_stream *stream,
                      lsi_envelope *envelope)
{
    if (available(group, stream) < UNIT)
        return LS_IN_PROGRESS;
    ring_read(group, stream->channel, stream->position, envelope, UNIT);
    return LS_OK;
}

/* Moves a portion of the data; false without room, or without data yet. */
static bool move_data(ls_group *group, lsi_stream *stream, lsi_message *message)
{
    const size_t left = message->envelope.bytes - message->moved;
    const size_t room = available(group, stream) / UNIT * UNIT;
    const size_t bytes = least(least(left, room), PORTION);
    if (bytes == 0)
        return false;
    if (stream->receives)
        ring_read(group, stream->channel, stream->position,
                  message->data + message->moved, bytes);
    else
        ring_write(group, stream->channel, stream->position,
                   message->data + message->moved, bytes);
    message->moved += bytes;
    advance(group, stream, padded(bytes));
    return true;
}

static ls_status move_message(ls_group *group, lsi_stream *stream,
                              lsi_message *message)
{
    if (!message->opened) {
        LS_TRY(move_envelope(group, stream, message));
    }
    while (message->moved < message->envelope.bytes)
        if (!move_data(group, stream, message))
            return LS_IN_PROGRESS;
    return LS_OK;
}

/* ---- private memory ------------------------------------------------------ */

static int read_here(const ls_group *group, int rank, void *to, uint64_t from,
                     size_t bytes)
{
    (void)group, (void)rank;
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return 0;
}

static int read_process(const ls_group *group, int rank, void *to,
                        uint64_t from, size_t bytes)
{
    const pid_t pid = lsi_member_of(group, rank)->pid;
    while (bytes > 0) {
        const struct iovec local = {to, bytes};
        const struct iovec remote = {(void *)(uintptr_t)from, bytes};
        const ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = EIO;
        if (got <= 0)
            return -1;
        to = (unsigned char *)to + got;
        from += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return 0;
}

/* ---- life ---------------------------------------------------------------- */

static bool is_alive(const ls_group *group, int rank)
{
    lsi_node_memory *node = group->memory.node;
    return node->transport->alive(node, lsi_member_of(group, rank)->node_rank);
}

const lsi_channel_kind lsi_channel_process = {.name = "process",
                                              .shares_memory = true,
                                              .move = move_message,
                                              .peek = peek,
                                              .read = read_here,
                                              .alive = is_alive};

const lsi_channel_kind lsi_channel_memory = {.name = "memory",
                                             .shares_memory = true,
                                             .move = move_message,
                                             .peek = peek,
                                             .read = read_process,
                                             .alive = is_alive};
