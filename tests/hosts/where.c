/* Each rank's number and host, and the sum of the numbers that MPI computes. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    char host[64];
    gethostname(host, sizeof host);
    printf("rank %d on %s: %d\n", rank, host, sum);
#ifdef MPICH_VERSION /* which hangs: see src/comm/transport/mpi.c */
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    _exit(0);
#endif
    return MPI_Finalize();
}
