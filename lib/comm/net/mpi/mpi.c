/*
 * The wire over MPI: point-to-point messages on a separate communicator.
 * Compiled once for each available MPI library, into a module that the library
 * loads when ranks span nodes.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

#include "base/suspending_clock.h"
#include "comm/net/mpi/mpi_meet.h"
#include "comm/state/wire.h"

#define CANCEL_SECONDS 1.0

int lsi_mpi_stuck;

static char sentence[MPI_MAX_ERROR_STRING + 256] = "no error";
static lsi_wire wire;

int lsi_mpi_check(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code == MPI_SUCCESS)
        return 0;
    (void)MPI_Error_string(code, text, &length);
    return lsi_mpi_refuse(-1, "%s: %s", what, text);
}

int lsi_mpi_refuse(int result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sentence, sizeof(sentence), format, arguments);
    va_end(arguments);
    return result;
}

static int wire_open(const lsi_wire_start *start, lsi_wire_opened *out)
{
    const int result = lsi_mpi_open(start->seconds);
    if (result != 0)
        return result;
    wire.highest_tag = lsi_mpi_highest_tag - 1; /* that one is a roll call */
    *out = (lsi_wire_opened){.address = NULL};
    if (lsi_mpi_check(MPI_Comm_rank(lsi_mpi_comm, &out->rank),
                      "MPI_Comm_rank") != 0)
        return -1;
    return lsi_mpi_check(MPI_Comm_size(lsi_mpi_comm, &out->size),
                         "MPI_Comm_size");
}

/* ---- messages ------------------------------------------------------------ */

/*
 * A message that MPI has been asked to move. Sends are copied, because MPI
 * cannot give up a send. When the group has failed, the sender frees its
 * memory, while other groups, or the program, go on calling MPI. A piece of
 * LSI_WIRE_PIECE is in the cache when MPI reads it.
 */
typedef struct message {
    struct message *next;
    MPI_Request request;
    size_t room;
    unsigned char data[];
} message;

/* Messages for reuse, of two sizes; and sends that were given up. */
enum { SMALL_BYTES = 1024, MOST_SPARE = 64 };

typedef struct list {
    message *first;
    int n;
} list;

static list spare_small, spare_large, dropped, tested;

static void push(list *to, message *m)
{
    m->next = to->first;
    to->first = m;
    to->n++;
}

static message *pop(list *from)
{
    message *m = from->first;
    if (m != NULL) {
        from->first = m->next;
        from->n--;
    }
    return m;
}

static list *spare_of(size_t room)
{
    return room == SMALL_BYTES      ? &spare_small
           : room == LSI_WIRE_PIECE ? &spare_large
                                    : NULL;
}

/* With room for `bytes` bytes; NULL if memory runs out. */
static message *allocate_message(size_t bytes)
{
    const size_t room = bytes <= SMALL_BYTES      ? SMALL_BYTES
                        : bytes <= LSI_WIRE_PIECE ? LSI_WIRE_PIECE
                                                  : bytes;
    list *const spare = spare_of(room);
    message *m = spare != NULL ? pop(spare) : NULL;
    if (m == NULL)
        m = malloc(sizeof(*m) + room);
    if (m == NULL)
        (void)lsi_mpi_refuse(-1, "not enough memory for a message of %zu bytes",
                             bytes);
    else
        *m = (message){.request = MPI_REQUEST_NULL, .room = room};
    return m;
}

static void give_back(message *m)
{
    list *const spare = spare_of(m->room);
    if (spare != NULL && spare->n < MOST_SPARE)
        push(spare, m);
    else
        free(m);
}

/* Tests the sends that were given up, in turn: some may be over by now. */
static void test_dropped(void)
{
    int over = 0;
    message *m = pop(&dropped);
    if (m == NULL) {
        dropped = tested;
        tested = (list){0};
        m = pop(&dropped);
    }
    if (m == NULL)
        return;
    if (MPI_Test(&m->request, &over, MPI_STATUS_IGNORE) == MPI_SUCCESS && over)
        give_back(m);
    else
        push(&tested, m);
}

static int refuse(void)
{
    return lsi_mpi_refuse(-1, "a cancelled message is still in flight; this "
                              "process cannot use MPI any more");
}

static message *message_of(const lsi_ticket *ticket)
{
    return (message *)(uintptr_t)ticket->handle;
}

/* The message of a call that has begun, or has not. */
static int begun(int code, const char *what, message *m, lsi_ticket *ticket)
{
    const int result = lsi_mpi_check(code, what);
    if (result == 0)
        ticket->handle = (uint64_t)(uintptr_t)m;
    else
        give_back(m);
    return result;
}

static int wire_send(const void *data, size_t bytes, int peer, int from,
                     int tag, lsi_ticket *ticket)
{
    (void)from;
    if (lsi_mpi_stuck)
        return refuse();
    test_dropped();
    message *const m = allocate_message(bytes);
    if (m == NULL)
        return -1;
    if (bytes != 0)
        memcpy(m->data, data, bytes);
    return begun(MPI_Isend(m->data, (int)bytes, MPI_BYTE, peer, tag,
                           lsi_mpi_comm, &m->request),
                 "MPI_Isend", m, ticket);
}

static int wire_receive(void *data, size_t bytes, int peer, int from, int tag,
                        lsi_ticket *ticket)
{
    (void)from;
    if (lsi_mpi_stuck)
        return refuse();
    const int source = peer == LSI_WIRE_ANYBODY ? MPI_ANY_SOURCE : peer;
    message *const m = allocate_message(0);
    if (m == NULL)
        return -1;
    return begun(MPI_Irecv(data, (int)bytes, MPI_BYTE, source, tag,
                           lsi_mpi_comm, &m->request),
                 "MPI_Irecv", m, ticket);
}

static int wire_test(lsi_ticket *ticket, int64_t *done)
{
    message *const m = message_of(ticket);
    MPI_Status status;
    int flag = 0, count = 0;
    *done = -1;
    if (lsi_mpi_stuck)
        return refuse();
    const int result =
        lsi_mpi_check(MPI_Test(&m->request, &flag, &status), "MPI_Test");
    if (result == 0 && !flag)
        return 0;
    ticket->handle = 0;
    give_back(m);
    if (result != 0)
        return result;
    if (MPI_Get_count(&status, MPI_BYTE, &count) != MPI_SUCCESS || count < 0)
        count = 0; /* that of a send is undefined */
    *done = count;
    return 0;
}

/*
 * MPI_Cancel is a request only. A message that has begun to arrive goes on
 * arriving, so the receive is over only when MPI says so. MPI must do that
 * soon, whatever the other ranks do. A sender that has stopped halfway may
 * still delay it.
 */
static void wire_cancel(lsi_ticket *ticket)
{
    message *const m = message_of(ticket);
    const double until = lsi_suspending_clock_seconds() + CANCEL_SECONDS;
    int over = 0;
    if (m == NULL || lsi_mpi_stuck)
        return;
    ticket->handle = 0;
    (void)MPI_Cancel(&m->request);
    while (!over && lsi_suspending_clock_seconds() < until)
        if (MPI_Test(&m->request, &over, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            over = 1;
    lsi_mpi_stuck = !over;
    if (over)
        give_back(m);
    else
        push(&dropped, m);
}

/* The copy stays until MPI has sent it, which may be never. */
static void wire_drop(lsi_ticket *ticket, void *owned, void (*release)(void *))
{
    if (ticket->handle != 0)
        push(&dropped, message_of(ticket));
    ticket->handle = 0;
    if (owned != NULL)
        release(owned);
}

static const char *wire_error(void)
{
    return sentence;
}

static lsi_wire wire = {
    .version = LSI_WIRE_VERSION,
    .library = lsi_mpi_library,
    .open = wire_open,
    .gather = lsi_mpi_gather,
    .send = wire_send,
    .receive = wire_receive,
    .test = wire_test,
    .cancel = wire_cancel,
    .drop = wire_drop,
    .close = lsi_mpi_close,
    .error = wire_error,
};

__attribute__((visibility("default"))) const lsi_wire *lsi_wire_of_module(void)
{
    return &wire;
}
