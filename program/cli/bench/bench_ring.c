/*
 * lockstep bench ring: the mean of a vector over all ranks by a ring, by a
 * butterfly, and by the library's choice. It measures the time and memory of
 * each, and the distance of its result from the mean in float64.
 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/rng.h"
#include "cli/bench/bench.h"
#include "cli/frame/list.h"
#include "lockstep/group.h"

typedef struct state {
    lsi_bench_common common;
    const char *elements;
    int64_t seed;
    lsi_list lengths; /* with a 0 for one element for each rank */
    float *data, *mean;
    double *times;
} state;

#define ROW(...) LSI_OPTION(state, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_BENCH_ROWS("1,2,4,8,16,32", "5", "20"),
    ROW(elements, LIST, "elements", 0, "N,...", "0,1000,10000,100000",
        "vector lengths, in elements; 0: one element per rank"),
    ROW(seed, INT, "seed", 0, "N", "0", "seed of the random numbers"),
};

static const lsi_column columns[] = {
    LSI_COLUMN(INT, "ranks"),
    LSI_COLUMN(INT, "elements", .width = 8),
    LSI_COLUMN(TEXT, "algorithm"),
    LSI_COLUMN(REAL, "time_us.min", ""),
    LSI_COLUMN(REAL, "time_us.median", "time", .unit = "us", .decimals = 2),
    LSI_COLUMN(REAL, "time_us.mean", ""),
    LSI_COLUMN(REAL, "time_us.p99", ""),
    LSI_COLUMN(REAL, "time_us.max", "max", .unit = "us", .decimals = 2),
    LSI_COLUMN(INT, "memory_bytes", "memory", .unit = "B"),
    LSI_COLUMN(REAL, "error_ulp", "error", .unit = "ulp of 1", .decimals = 3),
    LSI_COLUMN(REAL, "error", ""),
    LSI_COLUMN(BOOL, "same_bits", "same bits"),
};

/* "library" is the choice of the selection table. */
static const struct algorithm {
    const char *name, *select;
} algorithms[] = {
    {"ring", "all_reduce:0-inf:ring"},
    {"butterfly", "all_reduce:0-inf:butterfly"},
    {"library", ""},
};

enum { N_ALGORITHMS = sizeof(algorithms) / sizeof(algorithms[0]) };

typedef struct result {
    lsi_stats stats;
    int64_t memory_bytes;
    double error; /* largest distance from the mean in float64 */
    int64_t same_bits;
} result;

/* Element i of a rank's vector, in [-1, 1). */
static float value_of(const state *b, int rank, size_t i)
{
    const lsi_rng_key key = {(uint64_t)b->seed, (uint64_t)rank};
    return 2 * lsi_rng_unit_f32(lsi_rng_u32(key, 0, i)) - 1;
}

static double error_of(const state *b, size_t n)
{
    const int size = ls_group_size(b->common.group);
    double largest = 0;
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (int rank = 0; rank < size; rank++)
            sum += value_of(b, rank, i);
        largest = fmax(largest, fabs(b->mean[i] - sum / size));
    }
    return largest;
}

/* Whether all ranks hold the same bits: a hash of each, compared. */
static ls_status compare_bits(const state *b, size_t n, int64_t *same)
{
    const uint64_t hash = lsi_hash(LSI_HASH_START, b->mean, n * sizeof(float));
    const int64_t mine = (int64_t)(hash >> 1);
    int64_t ends[2] = {mine, -mine};
    LS_TRY(
        ls_all_reduce(b->common.group, ends, ends, 2, LS_I64, LS_REDUCE_MAX));
    *same = ends[0] == -ends[1];
    return LS_OK;
}

static ls_status run_once(const state *b, size_t n)
{
    return ls_all_reduce(b->common.group, b->data, b->mean, n, LS_F32,
                         LS_REDUCE_AVG);
}

static ls_status time_runs(state *b, size_t n)
{
    for (int64_t i = 0; i < b->common.warmup; i++)
        LS_TRY(run_once(b, n));
    for (int64_t i = 0; i < b->common.iterations; i++) {
        LS_TRY(ls_barrier(b->common.group));
        const uint64_t start = lsi_clock_ns();
        LS_TRY(run_once(b, n));
        b->times[i] = (double)(lsi_clock_ns() - start) * 1e-9;
    }
    return LS_OK;
}

/* The time of a run is that of the slowest rank. */
static ls_status summarise(const state *b, lsi_stats *out)
{
    const size_t n = (size_t)b->common.iterations;
    LS_TRY(ls_all_reduce(b->common.group, b->times, b->times, n, LS_F64,
                         LS_REDUCE_MAX));
    return lsi_stats_of(b->times, n, out);
}

/* Peak bytes allocated beyond those that were live before. */
static int64_t memory_since(const ls_memory_stats *before)
{
    ls_memory_stats now;
    ls_memory_total(&now);
    return (int64_t)(now.peak_bytes - before->live_bytes);
}

static void add_row(state *b, size_t n, const struct algorithm *algorithm,
                    const result *r)
{
    lsi_table_row(b->common.table);
    lsi_table_int(b->common.table, "ranks", ls_group_size(b->common.group));
    lsi_table_int(b->common.table, "elements", (int64_t)n);
    lsi_table_text(b->common.table, "algorithm", algorithm->name);
    lsi_table_stats(b->common.table, "time_us", &r->stats, 1e6);
    lsi_table_int(b->common.table, "memory_bytes", r->memory_bytes);
    lsi_table_real(b->common.table, "error", r->error);
    lsi_table_real(b->common.table, "error_ulp", r->error * 0x1p23);
    lsi_table_bool(b->common.table, "same_bits", r->same_bits != 0);
}

/*
 * Any order of adding `size` numbers of at most 1 in f32, and one division,
 * stays within this distance of the mean: (size - 1) roundings of sums that
 * are at most size large, divided by size, and two more of the quotient.
 */
static double error_bound(int size)
{
    return (size + 2) * 0x1p-24;
}

/* Memory that an algorithm keeps for its next use is freed with the group. */
static ls_status measure_in_group(state *b, size_t n,
                                  const struct algorithm *algorithm)
{
    result r;
    ls_memory_stats before;
    LS_TRY(ls_group_select(b->common.group, algorithm->select));
    ls_memory_total(&before);
    ls_memory_reset_peak();
    memset(b->mean, 0xff, n * sizeof(float));
    LS_TRY(time_runs(b, n));
    r.memory_bytes = memory_since(&before);
    r.error = error_of(b, n);
    LS_TRY(compare_bits(b, n, &r.same_bits));
    LS_TRY(summarise(b, &r.stats));
    LS_TRY(ls_all_reduce(b->common.group, &r.memory_bytes, &r.memory_bytes, 1,
                         LS_I64, LS_REDUCE_MAX));
    /* A NaN is larger than any bound. */
    if (!(r.error <= error_bound(ls_group_size(b->common.group))) ||
        !r.same_bits)
        b->common.wrong = true;
    if (ls_group_rank(b->common.group) == 0)
        add_row(b, n, algorithm, &r);
    return LS_OK;
}

static ls_status measure_one(state *b, size_t n,
                             const struct algorithm *algorithm)
{
    ls_group *const whole = b->common.group;
    LS_TRY(ls_group_split(whole, 0, ls_group_rank(whole), &b->common.group));
    const ls_status status = measure_in_group(b, n, algorithm);
    ls_group_close(&b->common.group);
    b->common.group = whole;
    return status;
}

static ls_status allocate(state *b, size_t most)
{
    const size_t iterations = (size_t)b->common.iterations;
    LS_TRY(lsi_alloc(&b->times, iterations * sizeof(double), LS_MEMORY_OTHER,
                     "times"));
    LS_TRY(lsi_alloc(&b->data, most * sizeof(float), LS_MEMORY_OTHER,
                     "input vector of this rank"));
    LS_TRY(lsi_alloc(&b->mean, most * sizeof(float), LS_MEMORY_OTHER,
                     "mean of the vectors"));
    for (size_t i = 0; i < most; i++)
        b->data[i] = value_of(b, ls_group_rank(b->common.group), i);
    return LS_OK;
}

static int64_t length_at(const state *b, size_t i)
{
    const int64_t n = b->lengths.values[i];
    return n == 0 ? ls_group_size(b->common.group) : n;
}

static ls_status open_ring(void *opaque)
{
    state *const b = opaque;
    int64_t most = 0;
    for (size_t i = 0; i < b->lengths.n; i++)
        most = length_at(b, i) > most ? length_at(b, i) : most;
    b->common.cases = b->lengths.n * N_ALGORITHMS;
    return allocate(b, (size_t)most);
}

static void close_ring(void *opaque)
{
    state *const b = opaque;
    lsi_free(b->times);
    lsi_free(b->data);
    lsi_free(b->mean);
}

static ls_status measure(void *opaque, size_t i)
{
    state *const b = opaque;
    return measure_one(b, (size_t)length_at(b, i / N_ALGORITHMS),
                       &algorithms[i % N_ALGORITHMS]);
}

static ls_status parse(void *opaque)
{
    state *const b = opaque;
    return lsi_list_of_numbers("--elements", b->elements, 0, 1 << 28,
                               &b->lengths);
}

const lsi_bench lsi_bench_ring = {
    .command =
        {.name = "ring",
         .summary = "Compare ring, butterfly and automatic all-reduce",
         .text =
             "Each algorithm computes the mean of an f32 vector over all "
             "ranks. Algorithm library is the algorithm that the library "
             "selects. Column time: median over the runs; the time of a run is "
             "that of its slowest rank. Column max: time of the slowest run. "
             "Column memory: most bytes that a rank allocated, without the "
             "vectors. Column error: largest difference of an element from the "
             "mean in float64, in units of 2^-23. If an error exceeds the "
             "bound for rounding errors, or if the results of two ranks differ "
             "in a bit, the exit status is 1.",
         LSI_COMMAND_OPTIONS(options),
         .run = lsi_bench_run},
    LSI_BENCH_TABLES(state, columns),
    .ranks = "1,2,4,8,16,32",
    .parse = parse,
    .open = open_ring,
    .measure = measure,
    .close = close_ring,
};
