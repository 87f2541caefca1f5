/*
 * Groups of MPI communicators, by name:
 *
 *   split       groups of MPI_COMM_WORLD, parts of it and MPI_COMM_SELF
 *   misuse      no communicator, no MPI, a rank that cannot join
 *   late        the last rank does not call ls_group_from_mpi
 *   die         the last rank is killed in an open group
 *
 * A rank that finds no fault prints "rank R of N is done"; the first fault ends
 * it. With the second argument "stay", MPI is not finalized: over a network,
 * MPI_Finalize of MPICH 4.0 hangs in any program that has used parts.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mpi.h>

#include <lockstep/comm.h>
#include <lockstep/mpi.h>

enum { LONG = 100003, LATE_SECONDS = 2 };

static int stays; /* whether MPI is not finalized */

static void require(int holds, int line)
{
    if (holds)
        return;
    fprintf(stderr, "communicators.c:%d: %s\n", line, ls_last_error());
    fflush(stderr);
    abort();
}

#define REQUIRE(condition) require(condition, __LINE__)
#define REQUIRE_OK(call)   require((call) == LS_OK, __LINE__)
#define REQUIRE_ERROR(call, status, text)                                      \
    require((call) == (status) && strstr(ls_last_error(), text) != NULL,       \
            __LINE__)

static int rank_in(MPI_Comm comm)
{
    int rank;
    MPI_Comm_rank(comm, &rank);
    return rank;
}

static int size_of(MPI_Comm comm)
{
    int size;
    MPI_Comm_size(comm, &size);
    return size;
}

/* Both sum the ranks' numbers in the world, and more of them at once. */
static void check_sums(MPI_Comm comm, ls_group *group)
{
    static int32_t mine[LONG], ours[LONG], theirs[LONG];
    for (int i = 0; i < LONG; i++)
        mine[i] = (rank_in(MPI_COMM_WORLD) + 1) * (i % 1000);
    REQUIRE(ls_group_rank(group) == rank_in(comm));
    REQUIRE(ls_group_size(group) == size_of(comm));
    REQUIRE_OK(ls_all_reduce(group, mine, ours, LONG, LS_I32, LS_REDUCE_SUM));
    MPI_Allreduce(mine, theirs, LONG, MPI_INT, MPI_SUM, comm);
    REQUIRE(memcmp(ours, theirs, sizeof(ours)) == 0);
}

static ls_group *join(MPI_Comm comm)
{
    ls_group *group = NULL;
    MPI_Errhandler handler;
    REQUIRE_OK(ls_group_from_mpi(comm, 60, &group));
    MPI_Comm_get_errhandler(comm, &handler);
    REQUIRE(handler == MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
    return group;
}

/* Rank 0 is in no part; the ranks of the two others are in reverse order. */
static void split(void)
{
    const int rank = rank_in(MPI_COMM_WORLD);
    MPI_Comm part = MPI_COMM_NULL, copy;
    ls_group *world = join(MPI_COMM_WORLD), *self = join(MPI_COMM_SELF);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : rank % 2, -rank,
                   &part);
    if (part != MPI_COMM_NULL) {
        ls_group *group = join(part);
        check_sums(part, group);
        MPI_Comm_dup(part, &copy);
        MPI_Comm_free(&part);
        check_sums(copy, group);
        MPI_Comm_free(&copy);
        ls_group_close(&group);
    }
    check_sums(MPI_COMM_SELF, self);
    check_sums(MPI_COMM_WORLD, world);
    if (!stays)
        MPI_Finalize();
    REQUIRE_OK(ls_barrier(world));
    ls_group_close(&self);
    ls_group_close(&world);
}

static MPI_Comm make_intercommunicator(int rank)
{
    MPI_Comm half, inter;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 0, &inter);
    MPI_Comm_free(&half);
    return inter;
}

static void misuse(void)
{
    const int rank = rank_in(MPI_COMM_WORLD);
    ls_group *group = NULL;
    MPI_Comm inter = make_intercommunicator(rank);
    REQUIRE_ERROR(ls_group_from_mpi(MPI_COMM_NULL, 60, &group), LS_ERR_ARGUMENT,
                  "MPI_COMM_NULL");
    REQUIRE_ERROR(ls_group_from_mpi(inter, 60, &group), LS_ERR_ARGUMENT,
                  "intercommunicator");
    MPI_Comm_free(&inter);
    REQUIRE_ERROR(
        ls_group_from_mpi(MPI_COMM_WORLD, 60, rank == 1 ? NULL : &group),
        LS_ERR_ARGUMENT, rank == 1 ? "group is NULL" : "rank 1 could not join");
    REQUIRE_ERROR(
        ls_group_from_mpi(MPI_COMM_WORLD, rank == 0 ? -3 : 60, &group),
        LS_ERR_ARGUMENT, "the timeout -3 s");
    REQUIRE(group == NULL);
    group = join(MPI_COMM_WORLD);
    check_sums(MPI_COMM_WORLD, group);
    ls_group_close(&group);
    if (stays)
        return;
    MPI_Finalize();
    REQUIRE_ERROR(ls_group_from_mpi(MPI_COMM_WORLD, 60, &group),
                  LS_ERR_ARGUMENT, "MPI is finalized");
}

static void be_late(int rank, int size)
{
    MPI_Comm other;
    ls_group *group = NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    if (rank < size - 1)
        REQUIRE_ERROR(ls_group_from_mpi(MPI_COMM_WORLD, LATE_SECONDS, &group),
                      LS_ERR_TIMEOUT, "called ls_group_from_mpi within");
    MPI_Barrier(other); /* the world has a pending collective */
    fprintf(stderr, "rank %d of %d has tried\n", rank, size);
    MPI_Barrier(other);
    _exit(0); /* MPI cannot be finalized */
}

static void die(int rank, int size)
{
    ls_group *group = join(MPI_COMM_WORLD);
    REQUIRE_OK(ls_barrier(group));
    if (rank == size - 1)
        raise(SIGKILL);
    REQUIRE(ls_barrier(group) == LS_ERR_PEER_DEAD);
    fprintf(stderr, "%s\n", ls_last_error());
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "split";
    ls_group *group = NULL;
    stays = argc > 2 || strcmp(name, "die") == 0;
    REQUIRE_ERROR(ls_group_from_mpi(MPI_COMM_WORLD, 60, &group),
                  LS_ERR_ARGUMENT, "MPI is not initialized");
    MPI_Init(&argc, &argv);
    const int rank = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    if (strcmp(name, "split") == 0)
        split();
    else if (strcmp(name, "misuse") == 0)
        misuse();
    else if (strcmp(name, "late") == 0)
        be_late(rank, size);
    else
        die(rank, size);
    fprintf(stderr, "rank %d of %d is done\n", rank, size);
    if (stays && strcmp(name, "die") != 0)
        MPI_Barrier(MPI_COMM_WORLD);
    if (stays)
        _exit(0);
    return 0;
}
