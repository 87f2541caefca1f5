/*
 * The all-gather by which ranks connect. A rank that has waited for too long
 * calls the roll: it tells all others that it is here. Every rank that receives
 * this gives up, too, and does the same. So all know which ranks have not come.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mpi.h>

#include "base/missing.h"
#include "base/suspending_clock.h"
#include "comm/net/mpi/mpi_meet.h"

#define ROLL_SECONDS 1.0 /* for answers */

enum { NAMES_BYTES = 128 };

static int lost; /* an earlier one has not ended */

static void nap(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 50L * 1000}, NULL);
}

/* ---- the roll ------------------------------------------------------------ */

/* Receives the roll messages that have arrived; returns whether any has. */
static int receive_roll(char *here)
{
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    int there = 0, received = 0;
    while (MPI_Improbe(MPI_ANY_SOURCE, lsi_mpi_highest_tag, lsi_mpi_comm,
                       &there, &message, &status) == MPI_SUCCESS &&
           there) {
        here[status.MPI_SOURCE] = 1;
        received = 1;
        (void)MPI_Mrecv(NULL, 0, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    }
    return received;
}

static void send_roll(int rank, int size)
{
    for (int r = 0; r < size; r++) {
        MPI_Request request = MPI_REQUEST_NULL;
        if (r != rank && MPI_Isend(NULL, 0, MPI_BYTE, r, lsi_mpi_highest_tag,
                                   lsi_mpi_comm, &request) == MPI_SUCCESS)
            (void)MPI_Request_free(&request);
    }
}

static int call_roll(char *here, int rank, int size, double seconds)
{
    char names[NAMES_BYTES];
    const double until = lsi_suspending_clock_seconds() + ROLL_SECONDS;
    here[rank] = 1;
    send_roll(rank, size);
    int missing = lsi_missing_ranks(here, size, names, sizeof(names));
    while (missing > 0 && lsi_suspending_clock_seconds() < until) {
        nap();
        (void)receive_roll(here);
        missing = lsi_missing_ranks(here, size, names, sizeof(names));
    }
    if (missing == 0)
        return lsi_mpi_refuse(LSI_WIRE_LATE,
                              "another rank waited for more than %g s and gave "
                              "up before all ranks had joined",
                              seconds);
    return lsi_mpi_refuse(LSI_WIRE_LATE,
                          "%d of %d ranks did not join within %g s: %s",
                          missing, size, seconds, names);
}

/* ---- gathering ----------------------------------------------------------- */

static int wait_for(MPI_Request *all, char *here, int size, double seconds)
{
    int met = 0, rank = 0;
    const double since = lsi_suspending_clock_seconds();
    (void)MPI_Comm_rank(lsi_mpi_comm, &rank);
    for (;;) {
        if (lsi_mpi_check(MPI_Test(all, &met, MPI_STATUS_IGNORE), "MPI_Test") !=
            0)
            return -1;
        if (met)
            return 0;
        if (receive_roll(here) ||
            (seconds > 0 && lsi_suspending_clock_seconds() - since > seconds))
            return call_roll(here, rank, size, seconds);
        nap();
    }
}

/* The bytes are our own: those of one that is late stay with MPI. */
int lsi_mpi_gather(const void *send, size_t bytes, void *recv, double seconds)
{
    MPI_Request all = MPI_REQUEST_NULL;
    int size = 0;
    if (lost || lsi_mpi_stuck)
        return lsi_mpi_refuse(LSI_WIRE_LATE,
                              "an earlier attempt to connect has failed");
    if (lsi_mpi_check(MPI_Comm_size(lsi_mpi_comm, &size), "MPI_Comm_size") != 0)
        return -1;
    const size_t total = bytes * (size_t)size;
    char *const own = calloc(1, bytes + total + (size_t)size);
    if (own == NULL)
        return lsi_mpi_refuse(-1,
                              "not enough memory for the records of the ranks");
    memcpy(own, send, bytes);
    lost = 1;
    int result =
        lsi_mpi_check(MPI_Iallgather(own, (int)bytes, MPI_BYTE, own + bytes,
                                     (int)bytes, MPI_BYTE, lsi_mpi_comm, &all),
                      "MPI_Iallgather");
    if (result == 0)
        result = wait_for(&all, own + bytes + total, size, seconds);
    if (result != 0)
        return result;
    lost = 0;
    memcpy(recv, own + bytes, total);
    free(own);
    return 0;
}
