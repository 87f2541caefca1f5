/*
 * The wire over MPI: point-to-point messages on a communicator of our own, and
 * one all-gather at the start. Compiled once for each MPI library there is,
 * into a module that the library loads when ranks span nodes.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mpi.h>

#include "comm/transport/wire.h"

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request is a word");

#define LEAVE_SECONDS 10.0

static MPI_Comm comm = MPI_COMM_NULL;
static int own_init; /* MPI was started here, not by the program */
static int network;  /* MPI sees more hosts than one */
static char library[LSI_WIRE_LIBRARY_BYTES];
static char sentence[MPI_MAX_ERROR_STRING + 64] = "no error";
static lsi_wire wire;

static int check(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code == MPI_SUCCESS)
        return 0;
    (void)MPI_Error_string(code, text, &length);
    snprintf(sentence, sizeof(sentence), "%s: %s", what, text);
    return -1;
}

static int refuse(const char *why)
{
    snprintf(sentence, sizeof(sentence), "%s", why);
    return -1;
}

/* "Open MPI v4.1.4, package: ..." up to the comma, or MPICH's first line. */
static void name_library(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    (void)MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = '\0';
    for (char *c = text; *c != '\0'; c++)
        if (*c == '\t')
            *c = ' ';
    snprintf(library, sizeof(library), "%.*s", (int)sizeof(library) - 1, text);
}

/*
 * Over TCP, UCX announces what is longer than its buffers, 8 KiB if nobody says
 * otherwise, and our pieces should go unannounced. Must be set before it
 * starts.
 */
static void prepare_ucx(void)
{
    (void)setenv("UCX_TCP_TX_SEG_SIZE", "64k", 0);
}

/*
 * One thread at a time calls, but not always the same. MPICH takes SIGUSR1, by
 * which its launcher may tell of the dead; here it asks for records.
 */
static int start_mpi(int *level)
{
    struct sigaction usr1;
    const int known = sigaction(SIGUSR1, NULL, &usr1) == 0;
    prepare_ucx();
    if (check(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, level),
              "MPI_Init_thread") != 0)
        return -1;
    if (known)
        (void)sigaction(SIGUSR1, &usr1, NULL);
    own_init = 1;
    return 0;
}

static int start(void)
{
    int there = 0, over = 0, level = MPI_THREAD_SINGLE;
    if (MPI_Finalized(&over) != MPI_SUCCESS || over)
        return refuse("MPI has been finalized and cannot start again");
    if (MPI_Initialized(&there) != MPI_SUCCESS)
        return refuse("MPI does not answer");
    if (!there) {
        if (start_mpi(&level) != 0)
            return -1;
    } else if (check(MPI_Query_thread(&level), "MPI_Query_thread") != 0) {
        return -1;
    }
    if (level < MPI_THREAD_SERIALIZED)
        return refuse("MPI offers no MPI_THREAD_SERIALIZED; a program that "
                      "calls MPI_Init itself must ask for it");
    return 0;
}

static int look_for_network(int size)
{
    MPI_Comm here = MPI_COMM_NULL;
    int ranks = 0;
    if (check(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL,
                                  &here),
              "MPI_Comm_split_type") != 0 ||
        check(MPI_Comm_size(here, &ranks), "MPI_Comm_size") != 0)
        return -1;
    network = ranks < size;
    return check(MPI_Comm_free(&here), "MPI_Comm_free");
}

static int wire_open(int *rank, int *size)
{
    int *highest = NULL, found = 0;
    if (comm == MPI_COMM_NULL) {
        if (start() != 0 ||
            check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup") != 0)
            return -1;
        (void)MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        name_library();
    }
    if (check(MPI_Comm_get_attr(comm, MPI_TAG_UB, (void *)&highest, &found),
              "MPI_TAG_UB") != 0)
        return -1;
    wire.highest_tag = found ? *highest : 32767; /* the least that MPI grants */
    if (check(MPI_Comm_rank(comm, rank), "MPI_Comm_rank") != 0)
        return -1;
    if (check(MPI_Comm_size(comm, size), "MPI_Comm_size") != 0)
        return -1;
    return look_for_network(*size);
}

static int wire_gather(const void *send, size_t bytes, void *recv)
{
    return check(MPI_Allgather(send, (int)bytes, MPI_BYTE, recv, (int)bytes,
                               MPI_BYTE, comm),
                 "MPI_Allgather");
}

/* ---- messages ------------------------------------------------------------ */

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

static int wire_send(const void *data, size_t bytes, int peer, int tag,
                     lsi_ticket *ticket)
{
    MPI_Request request = MPI_REQUEST_NULL;
    const int result =
        check(MPI_Isend(data, (int)bytes, MPI_BYTE, peer, tag, comm, &request),
              "MPI_Isend");
    keep(ticket, request);
    return result;
}

static int wire_receive(void *data, size_t bytes, int peer, int tag,
                        lsi_ticket *ticket)
{
    MPI_Request request = MPI_REQUEST_NULL;
    const int from = peer == LSI_WIRE_ANYBODY ? MPI_ANY_SOURCE : peer;
    const int result =
        check(MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, comm, &request),
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
    const int code = MPI_Test(&request, &flag, &status);
    keep(ticket, request);
    if (check(code, "MPI_Test") != 0 || !flag)
        return code == MPI_SUCCESS ? 0 : -1;
    if (MPI_Get_count(&status, MPI_BYTE, &count) != MPI_SUCCESS || count < 0)
        count = 0; /* that of a send is undefined */
    *done = count;
    return 0;
}

static void wire_cancel(lsi_ticket *ticket)
{
    MPI_Request request = request_of(ticket);
    if (request == MPI_REQUEST_NULL)
        return;
    (void)MPI_Cancel(&request);
    (void)MPI_Request_free(&request);
    keep(ticket, MPI_REQUEST_NULL);
}

/* Takes a message that nobody waits for any more, if there is one. */
static int take_unwanted(void)
{
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    int there = 0, count = 0;
    if (MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &there, &message,
                    &status) != MPI_SUCCESS ||
        !there || MPI_Get_count(&status, MPI_BYTE, &count) != MPI_SUCCESS)
        return 0;
    void *bytes = malloc(count > 0 ? (size_t)count : 1);
    if (bytes == NULL)
        return 0;
    (void)MPI_Mrecv(bytes, count, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    free(bytes);
    return 1;
}

/*
 * Before all leave, each takes what it was still sent. False if not all have
 * come to this in time.
 */
static int drain(void)
{
    MPI_Request all = MPI_REQUEST_NULL;
    int met = 0;
    const double until = MPI_Wtime() + LEAVE_SECONDS;
    if (MPI_Ibarrier(comm, &all) != MPI_SUCCESS)
        return 0;
    while (!met && MPI_Wtime() < until) {
        (void)take_unwanted();
        if (MPI_Test(&all, &met, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return 0;
    }
    while (take_unwanted()) {
    }
    return met;
}

/*
 * MPICH 4.0 over UCX hangs in MPI_Finalize more often than not once messages
 * have crossed a network: ranks that have disconnected wait in a barrier that
 * moves nothing, for ranks that need an answer to disconnect.
 */
static int may_finalize(void)
{
#ifdef MPICH_VERSION
    return !network;
#else
    return 1;
#endif
}

/*
 * What MPI_Finalize would have told MPICH's launcher, which otherwise takes the
 * first rank that ends for one that has died, and kills the rest. The words are
 * those of the wire protocol of PMI-1; only Hydra sets both variables.
 */
static void tell_launcher(void)
{
    static const char words[] = "cmd=finalize\n";
    const char *const number = getenv("PMI_FD");
    char answer[64];
    if (number == NULL || getenv("MPI_LOCALNRANKS") == NULL)
        return;
    const int fd = (int)strtol(number, NULL, 10);
    if (write(fd, words, sizeof(words) - 1) > 0)
        (void)!read(fd, answer, sizeof(answer));
}

/* What the program has started is the program's to end. */
static void wire_close(void)
{
    int over = 0;
    if (MPI_Finalized(&over) != MPI_SUCCESS || over || comm == MPI_COMM_NULL)
        return;
    const int met = drain();
    (void)MPI_Comm_free(&comm);
    if (!own_init || !met)
        return;
    if (may_finalize())
        (void)MPI_Finalize();
    else
        tell_launcher();
}

static const char *wire_error(void)
{
    return sentence;
}

static lsi_wire wire = {
    .version = LSI_WIRE_VERSION,
    .library = library,
    .open = wire_open,
    .gather = wire_gather,
    .send = wire_send,
    .receive = wire_receive,
    .test = wire_test,
    .cancel = wire_cancel,
    .close = wire_close,
    .error = wire_error,
};

__attribute__((visibility("default"))) const lsi_wire *lsi_wire_of_module(void)
{
    return &wire;
}
