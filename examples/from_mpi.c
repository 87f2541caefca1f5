/*
 * An MPI program that gets a group of Lockstep for a communicator: here those
 * of the even and of the odd ranks.
 *
 *     mpirun -n 4 ./from_mpi
 */
#include <stdio.h>

#include <mpi.h>

#include <lockstep/comm.h>
#include <lockstep/mpi.h>

/* Both libraries sum 1, 2, 3, ... over the ranks of the communicator. */
static ls_status sum(MPI_Comm comm, ls_group *group, int *wrong)
{
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    double mine = rank + 1, ours = 0, theirs = 0;
    MPI_Allreduce(&mine, &theirs, 1, MPI_DOUBLE, MPI_SUM, comm);
    const ls_status status =
        ls_all_reduce(group, &mine, &ours, 1, LS_F64, LS_REDUCE_SUM);
    if (status != LS_OK)
        return status;
    printf("rank %d of %d: sum %g\n", rank, size, ours);
    *wrong = ours != theirs;
    return LS_OK;
}

int main(int argc, char **argv)
{
    MPI_Comm half;
    ls_group *group = NULL;
    int rank = 0, wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);

    ls_status status = ls_group_from_mpi(half, LS_TIMEOUT_DEFAULT, &group);
    if (status == LS_OK)
        status = sum(half, group, &wrong);
    ls_group_close(&group);
    if (status != LS_OK) {
        fprintf(stderr, "from_mpi: %s\n", ls_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Comm_free(&half);
    MPI_Finalize();
    return wrong;
}
