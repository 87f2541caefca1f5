/*
 * The wire over MPI: point-to-point messages on a communicator of our own.
 * Compiled once for each MPI library there is, into a module that the library
 * loads when ranks span nodes.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <mpi.h>

#include "base/suspending_clock.h"
#include "comm/net/mpi/mpi_meet.h"
#include "comm/state/wire.h"

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request is a word");

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

static int refuse(void)
{
    return lsi_mpi_refuse(-1, "a message that was given up is still on its "
                              "way; MPI cannot be used any more");
}

static void keep(lsi_ticket *ticket, MPI_Request request)
{
    ticket->handle = 0;
    memcpy(&ticket->handle, &request, sizeof(request));
}

static MPI_Request request_of(const lsi_ticket *ticket)
{
    MPI_Request request;
    memcpy(&request, &ticket->handle, sizeof(request));
    return request;
}

static int wire_send(const void *data, size_t bytes, int peer, int from,
                     int tag, lsi_ticket *ticket)
{
    MPI_Request request = MPI_REQUEST_NULL;
    (void)from;
    if (lsi_mpi_stuck)
        return refuse();
    const int result = lsi_mpi_check(MPI_Isend(data, (int)bytes, MPI_BYTE, peer,
                                               tag, lsi_mpi_comm, &request),
                                     "MPI_Isend");
    keep(ticket, request);
    return result;
}

static int wire_receive(void *data, size_t bytes, int peer, int from, int tag,
                        lsi_ticket *ticket)
{
    MPI_Request request = MPI_REQUEST_NULL;
    (void)from;
    if (lsi_mpi_stuck)
        return refuse();
    const int source = peer == LSI_WIRE_ANYBODY ? MPI_ANY_SOURCE : peer;
    const int result =
        lsi_mpi_check(MPI_Irecv(data, (int)bytes, MPI_BYTE, source, tag,
                                lsi_mpi_comm, &request),
                      "MPI_Irecv");
    keep(ticket, request);
    return result;
}

static int wire_test(lsi_ticket *ticket, int64_t *done)
{
    MPI_Request request = request_of(ticket);
    MPI_Status status;
    int flag = 0, count = 0;
    *done = -1;
    if (lsi_mpi_stuck)
        return refuse();
    const int code = MPI_Test(&request, &flag, &status);
    keep(ticket, request);
    if (lsi_mpi_check(code, "MPI_Test") != 0 || !flag)
        return code == MPI_SUCCESS ? 0 : -1;
    if (MPI_Get_count(&status, MPI_BYTE, &count) != MPI_SUCCESS || count < 0)
        count = 0; /* that of a send is undefined */
    *done = count;
    return 0;
}

/*
 * MPI_Cancel is a request only. What has begun to arrive goes on arriving, so
 * the receive is over only when MPI says so, which it must do soon whatever the
 * others do. A sender that has stopped halfway may still keep it waiting.
 */
static void wire_cancel(lsi_ticket *ticket)
{
    MPI_Request request = request_of(ticket);
    const double until = lsi_suspending_clock_seconds() + CANCEL_SECONDS;
    int over = 0;
    if (request == MPI_REQUEST_NULL || lsi_mpi_stuck)
        return;
    (void)MPI_Cancel(&request);
    while (!over && lsi_suspending_clock_seconds() < until)
        if (MPI_Test(&request, &over, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            over = 1;
    lsi_mpi_stuck = !over;
    keep(ticket, MPI_REQUEST_NULL);
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
    .close = lsi_mpi_close,
    .error = wire_error,
};

__attribute__((visibility("default"))) const lsi_wire *lsi_wire_of_module(void)
{
    return &wire;
}
