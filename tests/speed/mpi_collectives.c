/*
 * mpi_collectives OPERATION kept|fresh BYTES:RUNS...: what `lockstep bench
 * OPERATION` measures, of MPI. Prints a line for each size and place of the
 * result: the bytes, "out" or "in", and of the slowest rank's times the median
 * and the 99th percentile, in microseconds.
 *
 * BYTES are what the larger of a rank's two buffers holds, of floats; every run
 * begins at a barrier. With `fresh` the buffers are newly mapped and written
 * before each run.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MOST_RUNS = 100000, WORDS = 4 };

typedef struct buffers {
    float *send, *recv;
    int count; /* of a block */
    int rank, size;
    size_t room; /* bytes of each */
    bool in_place, fresh;
} buffers;

#define WORLD MPI_COMM_WORLD

/* The buffer to send: MPI_IN_PLACE for a call in place. */
static const void *sent(const buffers *b)
{
    return b->in_place ? MPI_IN_PLACE : b->send;
}

static void all_reduce(const buffers *b)
{
    MPI_Allreduce(sent(b), b->recv, b->count, MPI_FLOAT, MPI_SUM, WORLD);
}

static void reduce(const buffers *b)
{
    const bool root = b->rank == 0;
    const void *send = b->in_place && !root ? b->recv : sent(b);
    MPI_Reduce(send, b->recv, b->count, MPI_FLOAT, MPI_SUM, 0, WORLD);
}

static void reduce_scatter(const buffers *b)
{
    MPI_Reduce_scatter_block(sent(b), b->recv, b->count, MPI_FLOAT, MPI_SUM,
                             WORLD);
}

static void broadcast(const buffers *b)
{
    MPI_Bcast(b->recv, b->count, MPI_FLOAT, 0, WORLD);
}

static void all_gather(const buffers *b)
{
    MPI_Allgather(sent(b), b->count, MPI_FLOAT, b->recv, b->count, MPI_FLOAT,
                  WORLD);
}

static void all_to_all(const buffers *b)
{
    MPI_Alltoall(sent(b), b->count, MPI_FLOAT, b->recv, b->count, MPI_FLOAT,
                 WORLD);
}

static void barrier(const buffers *b)
{
    (void)b;
    MPI_Barrier(WORLD);
}

typedef struct operation {
    const char *name;
    void (*run)(const buffers *b);
    bool has_blocks; /* the larger buffer has one for each rank */
    bool out_of_place;
} operation;

static const operation operations[] = {
    {"all-reduce", all_reduce, false, true},
    {"reduce", reduce, false, true},
    {"reduce-scatter", reduce_scatter, true, true},
    {"broadcast", broadcast, false, false},
    {"all-gather", all_gather, true, true},
    {"all-to-all", all_to_all, true, true},
    {"barrier", barrier, false, false},
};

static const operation *find(const char *name)
{
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
        if (strcmp(operations[i].name, name) == 0)
            return &operations[i];
    return NULL;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static float *map(size_t bytes)
{
    void *const block = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        MPI_Abort(WORLD, 2);
    return block;
}

/* Pages that nobody has written are all the same one. */
static void map_buffers(buffers *b)
{
    b->send = map(b->room);
    b->recv = map(b->room);
    memset(b->send, b->rank, b->room);
    memset(b->recv, b->rank, b->room);
}

static void unmap_buffers(buffers *b)
{
    munmap(b->send, b->room);
    munmap(b->recv, b->room);
}

static void measure(const operation *op, buffers *b, int runs)
{
    static double times[MOST_RUNS];
    for (int i = 0; i < runs / 10 + 5; i++)
        op->run(b);
    for (int i = 0; i < runs; i++) {
        if (b->fresh) {
            unmap_buffers(b);
            map_buffers(b);
        }
        MPI_Barrier(WORLD);
        const double begin = now();
        op->run(b);
        times[i] = now() - begin;
    }
    MPI_Allreduce(MPI_IN_PLACE, times, runs, MPI_DOUBLE, MPI_MAX, WORLD);
    qsort(times, (size_t)runs, sizeof(times[0]), by_size);
    if (b->rank == 0)
        printf("%zu %s %.3f %.3f\n", b->room - sizeof(float),
               b->in_place ? "in" : "out", times[runs / 2],
               times[(runs * 99 + 99) / 100 - 1]);
}

static void measure_size(const operation *op, buffers *b, const char *size)
{
    char *end;
    const long bytes = strtol(size, &end, 10);
    const long runs = *end == ':' ? strtol(end + 1, NULL, 10) : 0;
    if (bytes < 0 || bytes > 1L << 30 || runs < 1 || runs > MOST_RUNS)
        MPI_Abort(WORLD, 2);
    b->room = (size_t)bytes + sizeof(float);
    b->count =
        (int)(bytes / (long)sizeof(float)) / (op->has_blocks ? b->size : 1);
    map_buffers(b);
    b->in_place = false;
    if (op->out_of_place)
        measure(op, b, (int)runs);
    b->in_place = true;
    measure(op, b, (int)runs);
    unmap_buffers(b);
}

int main(int argc, char **argv)
{
    buffers b = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(WORLD, &b.rank);
    MPI_Comm_size(WORLD, &b.size);
    const operation *op = argc >= WORDS ? find(argv[1]) : NULL;
    if (op == NULL)
        MPI_Abort(WORLD, 2);
    b.fresh = strcmp(argv[2], "fresh") == 0;
    for (int i = WORDS - 1; i < argc; i++)
        measure_size(op, &b, argv[i]);
    return MPI_Finalize();
}
