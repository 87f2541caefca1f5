/*
 * lockstep bench ring: the mean of a vector over all ranks by a ring, by a
 * butterfly, and as the library would do it; what each takes, how much memory
 * it needs, and how far its result is from the mean in float64.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/rng.h"
#include "bench/bench.h"
#include "command/list.h"
#include "command/ranks.h"
#include "lockstep/group.h"

typedef struct args {
    lsi_bench_flags common;
    const char *elements;
    int64_t seed;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_BENCH_ROWS(common, "1,2,4,8,16,32", "5", "20"),
    ROW(elements, LIST, "elements", 0, "N,...", "0,1000,10000,100000",
        "lengths of the vector; 0 stands for one element for each rank"),
    ROW(seed, INT, "seed", 0, "N", "0", "other numbers"),
};

static const lsi_column columns[] = {
    {.name = "ranks", .type = LSI_COLUMN_INT},
    {.name = "elements", .type = LSI_COLUMN_INT},
    {.name = "algorithm", .type = LSI_COLUMN_TEXT},
    {.name = "time_us.min", .title = "", .type = LSI_COLUMN_REAL},
    {.name = "time_us.median",
     .title = "time",
     .unit = "us",
     .type = LSI_COLUMN_REAL,
     .decimals = 2},
    {.name = "time_us.mean", .title = "", .type = LSI_COLUMN_REAL},
    {.name = "time_us.p99", .title = "", .type = LSI_COLUMN_REAL},
    {.name = "time_us.max",
     .title = "max",
     .unit = "us",
     .type = LSI_COLUMN_REAL,
     .decimals = 2},
    {.name = "memory_bytes",
     .title = "memory",
     .unit = "B",
     .type = LSI_COLUMN_INT},
    {.name = "error_ulp",
     .title = "error",
     .unit = "ulp of 1",
     .type = LSI_COLUMN_REAL,
     .decimals = 3},
    {.name = "error", .title = "", .type = LSI_COLUMN_REAL},
    {.name = "same_bits",
     .title = "same on all ranks",
     .type = LSI_COLUMN_BOOL},
};

/* "library" is whatever the selection table says. */
static const struct algorithm {
    const char *name, *select;
} algorithms[] = {
    {"ring", "all_reduce:0-inf:ring"},
    {"butterfly", "all_reduce:0-inf:butterfly"},
    {"library", ""},
};

enum { N_ALGORITHMS = sizeof(algorithms) / sizeof(algorithms[0]) };

/* One rank's bench. */
typedef struct bench_state {
    const args *a;
    lsi_table *table;
    ls_group *group;
    float *data, *mean;
    double *times;
    bool wrong;
} bench_state;

typedef struct result {
    lsi_stats stats;
    int64_t memory_bytes;
    double error; /* largest distance from the mean in float64 */
    int64_t same_bits;
} result;

/* Element i of a rank's vector, in [-1, 1). */
static float value_of(const bench_state *b, int rank, size_t i)
{
    const lsi_rng_key key = {(uint64_t)b->a->seed, (uint64_t)rank};
    return 2 * lsi_rng_unit_f32(lsi_rng_u32(key, 0, i)) - 1;
}

static double error_of(const bench_state *b, size_t n)
{
    const int size = ls_group_size(b->group);
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
static ls_status compare_bits(const bench_state *b, size_t n, int64_t *same)
{
    const uint64_t hash = lsi_hash(LSI_HASH_START, b->mean, n * sizeof(float));
    const int64_t mine = (int64_t)(hash >> 1);
    int64_t ends[2] = {mine, -mine};
    LS_TRY(ls_all_reduce(b->group, ends, ends, 2, LS_I64, LS_MAX));
    *same = ends[0] == -ends[1];
    return LS_OK;
}

static ls_status run_once(const bench_state *b, size_t n)
{
    return ls_all_reduce(b->group, b->data, b->mean, n, LS_F32, LS_AVG);
}

static ls_status time_runs(bench_state *b, size_t n)
{
    for (int64_t i = 0; i < b->a->common.warmup; i++)
        LS_TRY(run_once(b, n));
    for (int64_t i = 0; i < b->a->common.iterations; i++) {
        LS_TRY(ls_barrier(b->group));
        const uint64_t start = lsi_clock_ns();
        LS_TRY(run_once(b, n));
        b->times[i] = (double)(lsi_clock_ns() - start) * 1e-9;
    }
    return LS_OK;
}

/* Of every run the time of the slowest rank. */
static ls_status summarise(const bench_state *b, lsi_stats *out)
{
    const size_t n = (size_t)b->a->common.iterations;
    LS_TRY(ls_all_reduce(b->group, b->times, b->times, n, LS_F64, LS_MAX));
    return lsi_stats_of(b->times, n, out);
}

/* The most that was allocated beside what had been there before. */
static int64_t memory_since(const ls_memory_stats *before)
{
    ls_memory_stats now;
    ls_memory_total(&now);
    return (int64_t)(now.peak_bytes - before->live_bytes);
}

static void add_row(bench_state *b, size_t n, const struct algorithm *algorithm,
                    const result *r)
{
    lsi_table_row(b->table);
    lsi_table_int(b->table, "ranks", ls_group_size(b->group));
    lsi_table_int(b->table, "elements", (int64_t)n);
    lsi_table_text(b->table, "algorithm", algorithm->name);
    lsi_table_stats(b->table, "time_us", &r->stats, 1e6);
    lsi_table_int(b->table, "memory_bytes", r->memory_bytes);
    lsi_table_real(b->table, "error", r->error);
    lsi_table_real(b->table, "error_ulp", r->error * 0x1p23);
    lsi_table_bool(b->table, "same_bits", r->same_bits != 0);
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

/* What an algorithm keeps for its next use goes with the group. */
static ls_status measure_in_group(bench_state *b, size_t n,
                                  const struct algorithm *algorithm)
{
    result r;
    ls_memory_stats before;
    LS_TRY(ls_group_select(b->group, algorithm->select));
    ls_memory_total(&before);
    ls_memory_reset_peak();
    memset(b->mean, 0xff, n * sizeof(float));
    LS_TRY(time_runs(b, n));
    r.memory_bytes = memory_since(&before);
    r.error = error_of(b, n);
    LS_TRY(compare_bits(b, n, &r.same_bits));
    LS_TRY(summarise(b, &r.stats));
    LS_TRY(ls_all_reduce(b->group, &r.memory_bytes, &r.memory_bytes, 1, LS_I64,
                         LS_MAX));
    /* A NaN is larger than any bound. */
    if (!(r.error <= error_bound(ls_group_size(b->group))) || !r.same_bits)
        b->wrong = true;
    if (ls_group_rank(b->group) == 0)
        add_row(b, n, algorithm, &r);
    return LS_OK;
}

static ls_status measure_one(bench_state *b, size_t n,
                             const struct algorithm *algorithm)
{
    ls_group *const whole = b->group;
    LS_TRY(ls_group_split(whole, 0, ls_group_rank(whole), &b->group));
    const ls_status status = measure_in_group(b, n, algorithm);
    ls_group_close(&b->group);
    b->group = whole;
    return status;
}

static ls_status allocate(bench_state *b, size_t most)
{
    void *block;
    const size_t iterations = (size_t)b->a->common.iterations;
    LS_TRY(lsi_alloc(&block, iterations * sizeof(double), LS_MEMORY_OTHER,
                     "times"));
    b->times = block;
    LS_TRY(
        lsi_alloc(&block, most * sizeof(float), LS_MEMORY_OTHER, "a vector"));
    b->data = block;
    LS_TRY(
        lsi_alloc(&block, most * sizeof(float), LS_MEMORY_OTHER, "its mean"));
    b->mean = block;
    for (size_t i = 0; i < most; i++)
        b->data[i] = value_of(b, ls_group_rank(b->group), i);
    return LS_OK;
}

/* The lengths to measure, the zero replaced. */
static ls_status list_elements(const args *a, int ranks, lsi_list *out)
{
    LS_TRY(lsi_list_of_numbers("--elements", a->elements, 0, 1 << 28, out));
    for (size_t i = 0; i < out->n; i++) {
        if (out->values[i] == 0)
            out->values[i] = ranks;
    }
    return LS_OK;
}

static ls_status measure_all(bench_state *b)
{
    lsi_list elements;
    int64_t most = 0;
    LS_TRY(list_elements(b->a, ls_group_size(b->group), &elements));
    for (size_t i = 0; i < elements.n; i++)
        most = elements.values[i] > most ? elements.values[i] : most;
    LS_TRY(allocate(b, (size_t)most));
    for (size_t i = 0; i < elements.n; i++) {
        for (size_t k = 0; k < N_ALGORITHMS; k++)
            LS_TRY(measure_one(b, (size_t)elements.values[i], &algorithms[k]));
    }
    return LS_OK;
}

static ls_status measure(const void *context, ls_group *group, lsi_table *table,
                         bool *wrong)
{
    bench_state b = {.a = context, .group = group, .table = table};
    const ls_status status = measure_all(&b);
    lsi_free(b.times);
    lsi_free(b.data);
    lsi_free(b.mean);
    *wrong = b.wrong;
    return status;
}

static ls_status check_flags(const void *context)
{
    lsi_list elements;
    return list_elements(context, 1, &elements);
}

static const lsi_bench bench = {
    .columns = columns,
    .n_columns = sizeof(columns) / sizeof(columns[0]),
    .ranks = "1,2,4,8,16,32",
    .check = check_flags,
    .measure = measure,
};

static int run(const lsi_invocation *call)
{
    args a;
    int exit_status;
    if (!lsi_cli_parse(call, &a, NULL, &exit_status))
        return exit_status;
    return lsi_bench_run(call, &a.common, &bench, &a);
}

const lsi_command lsi_command_bench_ring = {
    .name = "ring",
    .summary = "Compare the ring, the butterfly and the library's choice",
    .text = "Each computes the mean of a vector of f32 over all ranks. time is "
            "the median, max the largest, of the slowest rank's times; memory "
            "is the most that a rank allocated for it beside the vectors; "
            "error is the largest distance of an element from the mean in "
            "float64, in units of 2^-23. The exit status is 1 if an error is "
            "larger than rounding explains or if ranks differ in a bit.",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .run = run,
};
