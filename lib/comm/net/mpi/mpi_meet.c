/*
 * Open MPI's MPI_Init and MPICH's wait for all processes that the launcher has
 * started, whatever these do, and cannot be given up. So a thread makes that
 * call (mpi_thread.h), and the caller stops waiting after a while. The process
 * can then only end.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mpi.h>

#include "base/suspending_clock.h"
#include "base/variables.h"
#include "comm/net/mpi/mpi_meet.h"
#include "comm/net/mpi/mpi_thread.h"

#define LEAVE_SECONDS 10.0

MPI_Comm lsi_mpi_comm = MPI_COMM_NULL;
char lsi_mpi_library[LSI_WIRE_LIBRARY_BYTES];
int lsi_mpi_highest_tag;

static int own_init; /* MPI was started here, not by the program */
static int network;  /* MPI sees more hosts than one */

/* ---- starting ------------------------------------------------------------ */

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
    snprintf(lsi_mpi_library, sizeof(lsi_mpi_library), "%.*s",
             (int)sizeof(lsi_mpi_library) - 1, text);
}

/*
 * Over TCP, UCX announces messages longer than its buffers, which are 8 KiB by
 * default. Pieces of LSI_WIRE_PIECE should go unannounced. Must be set before
 * UCX starts.
 */
static void prepare_ucx(void)
{
    lsi_variable segments = {"UCX_TCP_TX_SEG_SIZE", "64k", false};
    lsi_variables_add(&segments, 1);
}

/*
 * One thread at a time calls, but not always the same. MPICH takes SIGUSR1, by
 * which its launcher may report dead ranks; here it asks for records.
 */
static int start_mpi(int *level)
{
    struct sigaction usr1;
    const int known = sigaction(SIGUSR1, NULL, &usr1) == 0;
    prepare_ucx();
    if (lsi_mpi_check(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, level),
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
        return lsi_mpi_refuse(
            -1, "MPI has been finalized and cannot start again; open the group "
                "before the program calls MPI_Finalize");
    if (MPI_Initialized(&there) != MPI_SUCCESS)
        return lsi_mpi_refuse(-1, "MPI_Initialized has failed");
    if (!there) {
        if (start_mpi(&level) != 0)
            return -1;
    } else if (lsi_mpi_check(MPI_Query_thread(&level), "MPI_Query_thread") !=
               0) {
        return -1;
    }
    if (level < MPI_THREAD_SERIALIZED)
        return lsi_mpi_refuse(
            -1, "MPI was not started with MPI_THREAD_SERIALIZED; a program "
                "that starts MPI itself must request it with MPI_Init_thread");
    return 0;
}

static int detect_network(MPI_Comm all)
{
    MPI_Comm here = MPI_COMM_NULL;
    int ranks = 0, size = 0;
    if (lsi_mpi_check(MPI_Comm_size(all, &size), "MPI_Comm_size") != 0 ||
        lsi_mpi_check(MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, 0,
                                          MPI_INFO_NULL, &here),
                      "MPI_Comm_split_type") != 0 ||
        lsi_mpi_check(MPI_Comm_size(here, &ranks), "MPI_Comm_size") != 0)
        return -1;
    network = ranks < size;
    return lsi_mpi_check(MPI_Comm_free(&here), "MPI_Comm_free");
}

static int join(void)
{
    MPI_Comm all = MPI_COMM_NULL;
    int *highest = NULL, found = 0;
    if (start() != 0 ||
        lsi_mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &all), "MPI_Comm_dup") != 0)
        return -1;
    (void)MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
    if (lsi_mpi_check(
            MPI_Comm_get_attr(all, MPI_TAG_UB, (void *)&highest, &found),
            "MPI_TAG_UB") != 0 ||
        detect_network(all) != 0)
        return -1;
    lsi_mpi_highest_tag = found ? *highest : 32767; /* the least it grants */
    name_library();
    lsi_mpi_comm = all;
    return 0;
}

int lsi_mpi_open(double seconds)
{
    if (lsi_mpi_comm != MPI_COMM_NULL)
        return 0;
    const int result = lsi_mpi_call(join, seconds);
    if (result != LSI_WIRE_LATE)
        return result;
    return lsi_mpi_refuse(
        result,
        "MPI_Init did not finish within %g s. MPI waits for all processes that "
        "the launcher started. Each must be a rank of the same program, with "
        "the same LOCKSTEP_TRANSPORT, on a host that the other hosts can reach",
        seconds);
}

/* ---- leaving ------------------------------------------------------------- */

/* Receives a message that no rank waits for any more, if any. */
static int receive_unwanted(void)
{
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    int there = 0, count = 0;
    if (MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, lsi_mpi_comm, &there, &message,
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
 * Before all leave, each receives the messages still sent to it. False if not
 * all ranks have come to this in time.
 */
static int drain(void)
{
    MPI_Request all = MPI_REQUEST_NULL;
    int met = 0;
    const double until = lsi_suspending_clock_seconds() + LEAVE_SECONDS;
    if (MPI_Ibarrier(lsi_mpi_comm, &all) != MPI_SUCCESS)
        return 0;
    while (!met && lsi_suspending_clock_seconds() < until) {
        (void)receive_unwanted();
        if (MPI_Test(&all, &met, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return 0;
    }
    while (receive_unwanted()) {
    }
    return met;
}

/*
 * MPICH 4.0 over UCX mostly hangs in MPI_Finalize once messages have crossed a
 * network. Ranks that have disconnected wait in a barrier that moves nothing,
 * for ranks that need an answer to disconnect.
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
 * Sends MPICH's launcher the message of MPI_Finalize. Otherwise the launcher
 * treats the first rank that ends as one that has died, and kills the others.
 * The text is that of the wire protocol of PMI-1; only Hydra sets both
 * variables.
 */
static void notify_launcher(void)
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

static int finalize(void)
{
    return lsi_mpi_check(MPI_Finalize(), "MPI_Finalize");
}

static int free_comm(void)
{
    return lsi_mpi_check(MPI_Comm_free(&lsi_mpi_comm), "MPI_Comm_free");
}

/* Leaves MPI running if the program has started it. */
void lsi_mpi_close(void)
{
    int over = 0;
    if (lsi_mpi_stuck || MPI_Finalized(&over) != MPI_SUCCESS || over ||
        lsi_mpi_comm == MPI_COMM_NULL)
        return;
    const int met = drain();
    if (lsi_mpi_call(free_comm, LEAVE_SECONDS) != 0 || !own_init || !met)
        return;
    if (may_finalize())
        (void)lsi_mpi_call(finalize, LEAVE_SECONDS);
    else
        notify_launcher();
}
