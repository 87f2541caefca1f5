/*
 * Groups of the ranks of an MPI communicator.
 *
 *     #include <mpi.h>
 *     #include <lockstep/mpi.h>
 *
 *     ls_group *group = NULL;
 *     check(ls_group_from_mpi(MPI_COMM_WORLD, LS_TIMEOUT_DEFAULT, &group));
 *     check(ls_all_reduce(group, x, x, 3, LS_F32, LS_REDUCE_SUM));
 *     ls_group_close(&group);
 *
 * The program is compiled with its MPI, so that any MPI of version 3 or later
 * serves. The libraries of Lockstep link none. No other header includes this
 * one.
 */
#ifndef LOCKSTEP_MPI_H
#define LOCKSTEP_MPI_H

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

#include "lockstep/group.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For ls_group_from_mpi only. */
typedef struct ls_mpi_ranks {
    MPI_Comm comm;
    int rank, size;
    const char *refused; /* why `comm` has no ranks that can join, or NULL */
} ls_mpi_ranks;

/* For ls_group_from_mpi only: the sentence of an MPI error. */
static inline ls_status ls_mpi_why(int error, char why[LS_WHY_BYTES])
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (MPI_Error_string(error, text, &length) != MPI_SUCCESS)
        text[0] = '\0';
    snprintf(why, LS_WHY_BYTES, "MPI_Iallgather failed: %.200s", text);
    return LS_ERR_SYSTEM;
}

/*
 * For ls_group_from_mpi only: an ls_gather_fn. MPI cannot cancel a collective
 * and may write to its buffers after a timeout, so these are not freed then.
 */
static inline ls_status ls_mpi_gather(void *context, const void *send,
                                      size_t bytes, void *recv, double seconds,
                                      char why[LS_WHY_BYTES])
{
    const ls_mpi_ranks *ranks = (const ls_mpi_ranks *)context;
    MPI_Request request = MPI_REQUEST_NULL;
    int done = 0;
    if (ranks->refused != NULL) {
        snprintf(why, LS_WHY_BYTES, "%s", ranks->refused);
        return LS_ERR_ARGUMENT;
    }
    char *own = (char *)malloc(bytes * ((size_t)ranks->size + 1));
    if (own == NULL)
        return LS_ERR_MEMORY;
    char *all = own + bytes;
    const double begin = MPI_Wtime();
    memcpy(own, send, bytes);
    int error = MPI_Iallgather(own, (int)bytes, MPI_BYTE, all, (int)bytes,
                               MPI_BYTE, ranks->comm, &request);
    while (error == MPI_SUCCESS && !done) {
        if (seconds > 0 && MPI_Wtime() - begin > seconds) {
            snprintf(why, LS_WHY_BYTES,
                     "not all %d ranks of the communicator called "
                     "ls_group_from_mpi within %g s",
                     ranks->size, seconds);
            return LS_ERR_TIMEOUT;
        }
        error = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (!done)
            sched_yield();
    }
    if (error == MPI_SUCCESS)
        memcpy(recv, all, bytes * (size_t)ranks->size);
    free(own);
    return error == MPI_SUCCESS ? LS_OK : ls_mpi_why(error, why);
}

/* For ls_group_from_mpi only: why `comm` cannot become a group, or NULL. */
static inline const char *ls_mpi_refusal(MPI_Comm comm)
{
    int begun = 0, ended = 0, is_inter = 0;
    if (MPI_Initialized(&begun) != MPI_SUCCESS || !begun)
        return "MPI is not initialized; call MPI_Init first";
    if (MPI_Finalized(&ended) != MPI_SUCCESS || ended)
        return "MPI is finalized; call ls_group_from_mpi before MPI_Finalize";
    if (comm == MPI_COMM_NULL)
        return "the communicator is MPI_COMM_NULL; only its members call "
               "ls_group_from_mpi";
    if (MPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS || is_inter)
        return "the communicator is an intercommunicator; merge its groups "
               "with MPI_Intercomm_merge first";
    return NULL;
}

/*
 * Joins the group of a communicator's ranks, with the same ranks and size: of
 * MPI_COMM_WORLD, of MPI_COMM_SELF, or of what MPI_Comm_split made. No
 * launcher's variables are read. `seconds` is the timeout of this call, which
 * waits for the other ranks, and then of the group.
 *
 * The communicator is not duplicated and stays the caller's. This call makes a
 * few nonblocking all-gathers on it, from the calling thread, and sets its
 * error handler to MPI_ERRORS_RETURN meanwhile. The group does not use it
 * later: it may be freed at once, and MPI may be finalized before the group is
 * closed. Ranks of one machine and user share memory. UCX connects the others;
 * without it they get LS_ERR_UNSUPPORTED and what to install.
 *
 * Collective over the communicator, in the same order as its other collectives.
 * Never exits. If one rank cannot join, all fail with its reason, and the
 * communicator can be used as before. LS_ERR_ARGUMENT, on this rank only, if
 * MPI is not running or the communicator is MPI_COMM_NULL; on all ranks if it
 * is an intercommunicator. LS_ERR_TIMEOUT if not all ranks have called it in
 * time. The communicator still has a pending collective then and can only be
 * left; MPI_Abort ends the job. A rank that has died before all have joined is
 * such a timeout, unless MPI's launcher ends the others first. Once the group
 * is open, its calls return LS_ERR_PEER_DEAD.
 *
 * *group is owned by the caller, and not written on failure.
 */
LS_MUST_CHECK static inline ls_status
ls_group_from_mpi(MPI_Comm comm, double seconds, ls_group **group)
{
    /* A refusal is reported by the first gather of a group of two. */
    ls_mpi_ranks ranks = {comm, 0, 2, ls_mpi_refusal(comm)};
    MPI_Errhandler theirs;
    if (ranks.refused != NULL)
        return ls_group_open_by(group, 0, 2, ls_mpi_gather, &ranks, seconds);
    MPI_Comm_get_errhandler(comm, &theirs);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &ranks.rank);
    MPI_Comm_size(comm, &ranks.size);
    const ls_status status = ls_group_open_by(group, ranks.rank, ranks.size,
                                              ls_mpi_gather, &ranks, seconds);
    MPI_Comm_set_errhandler(comm, theirs);
    MPI_Errhandler_free(&theirs);
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
