/*
 * mpi_all_reduce BYTES RUNS: the median over the runs of the slowest rank's
 * time of MPI_Allreduce of floats, in microseconds, as `lockstep bench` has it.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WARMUP = 2, MOST_RUNS = 1000 };

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double time_of_one(float *data, int count)
{
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
    const double own = MPI_Wtime() - begin;
    double slowest = 0;
    MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

int main(int argc, char **argv)
{
    double times[MOST_RUNS];
    MPI_Init(&argc, &argv);
    const int count = argc > 2 ? atoi(argv[1]) / (int)sizeof(float) : 0;
    const int runs = argc > 2 ? atoi(argv[2]) : 0;
    float *data = calloc((size_t)count + 1, sizeof(float));
    if (data == NULL || runs < 1 || runs > MOST_RUNS)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = -WARMUP; i < runs; i++) {
        const double took = time_of_one(data, count);
        if (i >= 0)
            times[i] = took;
    }
    qsort(times, (size_t)runs, sizeof(times[0]), by_size);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("%.1f\n", times[runs / 2] * 1e6);
    free(data);
    return MPI_Finalize();
}
