/*
 * lockstep bench all-reduce and the other collectives: nccl-tests' flags,
 * columns and definitions. A size is the bytes of the larger of a rank's two
 * buffers; algbw is size over time, busbw that times a factor of the operation.
 * Every run begins at a barrier; its time is that of the slowest rank. The
 * result is checked before and after the timed runs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/bench/bench.h"
#include "cli/bench/collectives.h"
#include "cli/bench/kinds.h"
#include "cli/frame/list.h"
#include "comm/api/select.h"
#include "comm/coll/algorithm.h"
#include "comm/state/state.h"

/* Where results go: out of place, in place, or both in turn. */
typedef struct places {
    bool out, in;
} places;

typedef struct state {
    lsi_bench_common common;
    lsi_list_steps steps;
    int64_t root, checks, threads, gpus;
    const char *sizes, *dtype, *op, *buffers, *place, *algorithm, *preset;
    char ranks[32]; /* as --nthreads and -g say */
    const lsi_bench_collective *collective;
    lsi_list size_list;
    lsi_bench_kinds kinds;
    places places;
    size_t kind; /* the one that x is of */
    lsi_exercise x;
    unsigned char *data[2];
    double *times;
} state;

#define ROW(...) LSI_OPTION(state, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_BENCH_ROWS("2", "5", "20"),
    ROW(steps.min, BYTES, "minbytes", 'b', "SIZE", "1k", "smallest size",
        .min = 0, .max = 1e12),
    ROW(steps.max, BYTES, "maxbytes", 'e', "SIZE", "16m", "largest size",
        .min = 0, .max = 1e12),
    ROW(steps.factor, INT, "stepfactor", 'f', "N", "4",
        "multiply each size by N to get the next one", .min = 2,
        .max = 1 << 20),
    ROW(steps.add, BYTES, "stepbytes", 'i', "SIZE", NULL,
        "add SIZE to each size to get the next one; replaces -f", .min = 0,
        .max = 1e12),
    ROW(sizes, LIST, "sizes", 0, "SIZE,...", NULL,
        "list of sizes, such as 4k,10m; replaces -b and -e"),
    ROW(dtype, STRING, "dtype", 'd', "TYPE", "f32",
        "element type: f32 (also float or float32), f64, f16, bf16, i8 (also "
        "int8), u8, i32, i64 or bool; all: measure every type except bool"),
    ROW(op, STRING, "op", 0, "OP", "sum",
        "reduction: sum, avg, min, max or prod; all: measure every reduction "
        "that the type supports"),
    ROW(root, INT, "root", 0, "RANK", "0", "root rank of reduce and broadcast",
        .min = 0, .max = 1023),
    ROW(checks, INT, "check", 0, "N", "2",
        "check the result N times: once before the timed runs, and N - 1 times "
        "after; 0: no checks",
        .min = 0, .max = 1e6),
    ROW(threads, INT, "nthreads", 0, "N", NULL,
        "as in nccl-tests: start N x G ranks, with G from --ngpus (default 1); "
        "replaces --ranks",
        .min = 1, .max = 1024),
    ROW(gpus, INT, "ngpus", 'g', "G", NULL,
        "as in nccl-tests: start N x G ranks, with N from --nthreads (default "
        "1); replaces --ranks",
        .min = 1, .max = 1024),
    ROW(buffers, CHOICE, "buffers", 0, "KIND", "private",
        "memory of the buffers: private to each rank, or shared between the "
        "ranks (ls_shared_alloc), or fresh: private, newly mapped and "
        "written before each run",
        .choices = "private|shared|fresh"),
    ROW(place, CHOICE, "place", 0, "PLACE", "both",
        "measure with separate send and receive buffers (out), with one buffer "
        "for both (in), or both ways",
        .choices = "out|in|both"),
    ROW(algorithm, STRING, "algorithm", 0, "NAME", NULL,
        "use this algorithm instead of the one in the selection table"),
    ROW(preset, CHOICE, "preset", 0, "NAME", NULL,
        "single-node: measure 1, 10, 100 and 1000 MB (1 MB = 10^6 bytes) in "
        "place, on 2, 4 and 6 ranks",
        .choices = "single-node"),
};

#define REAL(...) LSI_COLUMN(REAL, __VA_ARGS__, .decimals = 2)

/* A root is a column only of operations that have one. */
#define COLUMNS(...)                                                           \
    LSI_COLUMN(TEXT, "op", .wide = true, .width = 10),                         \
        LSI_COLUMN(INT, "ranks"),                                              \
        LSI_COLUMN(INT, "bytes", "size", .unit = "B", .width = 10),            \
        LSI_COLUMN(INT, "count", .wide = true, .width = 9),                    \
        LSI_COLUMN(TEXT, "dtype", "type"),                                     \
        LSI_COLUMN(TEXT, "redop", .wide = true),                               \
        __VA_ARGS__ LSI_COLUMN(TEXT, "algorithm", .width = 9),                 \
        LSI_COLUMN(TEXT, "buffers", .wide = true),                             \
        LSI_COLUMN(BOOL, "in_place", "in place"),                              \
        REAL("time_us.min", "min", .unit = "us", .wide = true, .width = 10),   \
        REAL("time_us.median", "time", .unit = "us", .width = 10),             \
        REAL("time_us.mean", "", .wide = true),                                \
        REAL("time_us.p99", "p99", .unit = "us", .wide = true, .width = 10),   \
        REAL("time_us.max", "", .wide = true),                                 \
        REAL("algbw_gbps", "algbw", .unit = "GB/s"),                           \
        REAL("busbw_gbps", "busbw", .width = 6),                               \
        LSI_COLUMN(INT, "wrong", "#wrong"), LSI_COLUMN(INT, "peak_bytes", "")
static const lsi_column columns[] = {COLUMNS()};
static const lsi_column columns_with_root[] = {
    COLUMNS(LSI_COLUMN(INT, "root", .wide = true), )};

/* ---- sizes ------------------------------------------------------------ */

static ls_status list_sizes(state *b)
{
    static const lsi_list single_node = {
        {1000000, 10000000, 100000000, 1000000000}, 4};
    if (!b->collective->has_data) {
        b->size_list = (lsi_list){.n = 1};
        return LS_OK;
    }
    if (b->sizes != NULL)
        return lsi_list_of_sizes("--sizes", b->sizes, 0, INT64_C(1) << 40,
                                 &b->size_list);
    if (b->preset != NULL) {
        b->size_list = single_node;
        return LS_OK;
    }
    return lsi_list_of_steps(&b->steps, &b->size_list);
}

/* Bytes of the larger buffer for each element of a block. */
static size_t unit_bytes(const state *b)
{
    const lsi_bench_collective *c = b->collective;
    const bool blocks = c->sends_blocks || c->receives_blocks;
    return (blocks ? (size_t)ls_group_size(b->x.group) : 1) *
           ls_dtype_size(b->x.dtype);
}

/* Elements of a block, if the larger buffer has `size` bytes. */
static size_t block_count(const state *b, int64_t size)
{
    return (size_t)size / unit_bytes(b);
}

static int64_t largest_size(const state *b)
{
    int64_t largest = 0;
    for (size_t i = 0; i < b->size_list.n; i++)
        if (b->size_list.values[i] > largest)
            largest = b->size_list.values[i];
    return largest;
}

/* ---- measuring -------------------------------------------------------- */

/* Adds the elements that are wrong on all ranks after one run. */
static ls_status check(state *b, int64_t *sum)
{
    const lsi_bench_collective *c = b->collective;
    lsi_bench_collective_fill(c, &b->x);
    LS_TRY(c->run(&b->x));
    int64_t wrong = (int64_t)c->wrong(&b->x);
    LS_TRY(ls_all_reduce(b->x.group, &wrong, &wrong, 1, LS_I64, LS_REDUCE_SUM));
    *sum += wrong;
    return LS_OK;
}

static ls_status repeat(state *b, int64_t times)
{
    for (int64_t i = 0; i < times; i++)
        LS_TRY(b->collective->run(&b->x));
    return LS_OK;
}

/* New pages for the buffers; the group knows none of their addresses. */
static ls_status map_fresh(state *b)
{
    const bool in_place = b->x.send == b->x.recv;
    const size_t bytes = (size_t)largest_size(b) + 1; /* never none */
    for (int i = 0; i < 2; i++) {
        void *block = b->data[i];
        if (block != NULL)
            munmap(block, bytes);
        b->data[i] = NULL;
        LS_TRY(lsi_bench_map(bytes, &block));
        b->data[i] = block;
    }
    b->x.send = b->data[0];
    b->x.recv = b->data[in_place ? 0 : 1];
    lsi_bench_collective_fill(b->collective, &b->x);
    return LS_OK;
}

static bool is_fresh(const state *b)
{
    return strcmp(b->buffers, "fresh") == 0;
}

static ls_status time_runs(state *b, lsi_stats *out)
{
    LS_TRY(repeat(b, b->common.warmup));
    for (int64_t i = 0; i < b->common.iterations; i++) {
        if (is_fresh(b))
            LS_TRY(map_fresh(b));
        LS_TRY(ls_barrier(b->x.group));
        const uint64_t start = lsi_clock_ns();
        LS_TRY(b->collective->run(&b->x));
        b->times[i] = (double)(lsi_clock_ns() - start) * 1e-9;
    }
    const size_t n = (size_t)b->common.iterations;
    LS_TRY(ls_all_reduce(b->x.group, b->times, b->times, n, LS_F64,
                         LS_REDUCE_MAX));
    return lsi_stats_of(b->times, n, out);
}

/*
 * Selects --algorithm for this size, from here on. Sizes in the selection table
 * are the bytes that a rank sends.
 */
static ls_status select_algorithm(const state *b)
{
    const lsi_bench_collective *c = b->collective;
    char line[128];
    if (b->algorithm == NULL)
        return LS_OK;
    size_t bytes = b->x.count * ls_dtype_size(b->x.dtype);
    if (c->sends_blocks)
        bytes *= (size_t)ls_group_size(b->x.group);
    snprintf(line, sizeof(line), "%s:%zu-%zu:%.64s", c->select, bytes,
             bytes + 1, b->algorithm);
    return ls_group_select(b->x.group, line);
}

/* The algorithm that the last run has used; the public interface hides it. */
static const char *used_algorithm(const state *b)
{
    if (strcmp(b->collective->name, "send-recv") == 0)
        return "messages";
    const lsi_algorithm *const algorithm = b->x.group->call.algorithm;
    return algorithm == NULL ? "none" : algorithm->name;
}

static ls_status peak_of_all(const state *b, int64_t *out)
{
    ls_memory_stats memory;
    ls_memory_total(&memory);
    *out = (int64_t)memory.peak_bytes;
    return ls_all_reduce(b->x.group, out, out, 1, LS_I64, LS_REDUCE_MAX);
}

typedef struct result {
    lsi_stats stats;
    int64_t wrong, peak_bytes;
    const char *algorithm;
} result;

static void add_row(state *b, const result *r)
{
    const lsi_exercise *x = &b->x;
    const lsi_bench_collective *c = b->collective;
    const int ranks = ls_group_size(x->group);
    const size_t bytes = x->count * unit_bytes(b);
    const double algbw = (double)bytes / r->stats.median * 1e-9;
    lsi_table_row(b->common.table);
    lsi_table_text(b->common.table, "op", c->name);
    lsi_table_int(b->common.table, "ranks", ranks);
    lsi_table_int(b->common.table, "bytes", (int64_t)bytes);
    lsi_table_int(b->common.table, "count", (int64_t)x->count);
    if (c->has_data)
        lsi_table_text(b->common.table, "dtype", ls_dtype_name(x->dtype));
    if (c->reduces)
        lsi_table_text(b->common.table, "redop", ls_reduce_op_name(x->op));
    if (c->has_root)
        lsi_table_int(b->common.table, "root", x->root);
    lsi_table_text(b->common.table, "algorithm", r->algorithm);
    if (c->has_data)
        lsi_table_text(b->common.table, "buffers", b->buffers);
    lsi_table_bool(b->common.table, "in_place", x->send == x->recv);
    lsi_table_stats(b->common.table, "time_us", &r->stats, 1e6);
    lsi_table_real(b->common.table, "algbw_gbps", algbw);
    lsi_table_real(b->common.table, "busbw_gbps", algbw * c->bus_factor(ranks));
    if (b->checks > 0)
        lsi_table_int(b->common.table, "wrong", r->wrong);
    lsi_table_int(b->common.table, "peak_bytes", r->peak_bytes);
}

static ls_status measure_one(state *b, int64_t size, bool in_place)
{
    result r = {.wrong = 0};
    b->x.count = block_count(b, size);
    b->x.send = b->data[0];
    b->x.recv = b->data[in_place ? 0 : 1];
    ls_memory_reset_peak();
    LS_TRY(select_algorithm(b));
    if (b->checks > 0)
        LS_TRY(check(b, &r.wrong));
    else
        lsi_bench_collective_fill(b->collective, &b->x);
    LS_TRY(time_runs(b, &r.stats));
    LS_TRY(b->collective->run(&b->x));
    r.algorithm = used_algorithm(b);
    if (b->algorithm != NULL && strcmp(b->algorithm, r.algorithm) != 0)
        return lsi_fail(LS_ERR_STATE,
                        "--algorithm %s cannot be used for this size and these "
                        "buffers; the library used %s instead",
                        b->algorithm, r.algorithm);
    for (int64_t i = 1; i < b->checks; i++)
        LS_TRY(check(b, &r.wrong));
    LS_TRY(peak_of_all(b, &r.peak_bytes));
    b->common.wrong |= r.wrong != 0;
    add_row(b, &r);
    return LS_OK;
}

static ls_status choose_places(state *b)
{
    const lsi_bench_collective *c = b->collective;
    const char *place = b->preset != NULL ? "in" : b->place;
    const bool both = strcmp(place, "both") == 0;
    b->places = (places){
        .out = c->out_of_place && (both || strcmp(place, "out") == 0),
        .in = c->in_place && (both || strcmp(place, "in") == 0),
    };
    if (!b->places.out && !b->places.in)
        return lsi_fail(LS_ERR_ARGUMENT, "%s does not support --place %s",
                        c->name, place);
    return LS_OK;
}

/* The first row would pay for ranks that have just begun: cold memory, and
 * cores that they do not yet share evenly. So the largest size goes first. */
static ls_status warm_up(state *b)
{
    b->x.count = block_count(b, largest_size(b));
    b->x.send = b->data[0];
    b->x.recv = b->data[b->places.out ? 1 : 0];
    lsi_bench_collective_fill(b->collective, &b->x);
    return repeat(b, b->common.warmup);
}

/* Sets the element type and the reduction, from here on. */
static ls_status set_kind(state *b, size_t kind)
{
    lsi_pattern_free(&b->x.pattern);
    b->kind = kind;
    b->x.dtype = b->kinds.all[kind].dtype;
    b->x.op = b->kinds.all[kind].op;
    /* Data that is only moved may be any. */
    return lsi_pattern_new(&b->x.pattern, ls_group_size(b->x.group), b->x.dtype,
                           b->collective->reduces ? b->x.op : LS_REDUCE_MAX);
}

/* Whether a step of -b and -e has as many elements as the one before it. */
static bool is_repeated(const state *b, size_t at)
{
    const int64_t *const sizes = b->size_list.values;
    return at > 0 && b->sizes == NULL &&
           block_count(b, sizes[at]) == block_count(b, sizes[at - 1]);
}

/* Of each kind every size, out of place, in place, or both. */
static ls_status measure(void *opaque, size_t i)
{
    state *const b = opaque;
    const size_t ways = (size_t)b->places.out + b->places.in;
    const size_t sizes = b->size_list.n;
    const size_t at = i / ways % sizes;
    if (i / ways / sizes != b->kind)
        LS_TRY(set_kind(b, i / ways / sizes));
    if (is_repeated(b, at))
        return LS_OK;
    return measure_one(b, b->size_list.values[at],
                       b->places.in && (i % ways == 1 || !b->places.out));
}

/* ---- memory ----------------------------------------------------------- */

static ls_status allocate(state *b)
{
    const bool shared = strcmp(b->buffers, "shared") == 0;
    const size_t bytes = (size_t)largest_size(b);
    const size_t n = (size_t)b->common.iterations;
    void *block;
    LS_TRY(lsi_alloc(&block, n * sizeof(double), LS_MEMORY_OTHER, "times"));
    b->times = block;
    if (is_fresh(b))
        return map_fresh(b);
    for (int i = 0; i < (b->places.out ? 2 : 1); i++) {
        LS_TRY(shared ? ls_shared_alloc(b->x.group, bytes, &block)
                      : lsi_alloc_zeroed(&block, bytes, LS_MEMORY_OTHER,
                                         "buffers of the collective"));
        b->data[i] = block;
    }
    return LS_OK;
}

static void close_buffers(void *opaque)
{
    state *const b = opaque;
    const bool shared = strcmp(b->buffers, "shared") == 0;
    for (int i = 0; i < 2; i++) {
        void *block = b->data[i];
        if (block != NULL && shared)
            ls_ignore(
                ls_shared_free(b->x.group, &block)); /* a group that failed */
        else if (block != NULL && is_fresh(b))
            munmap(block, (size_t)largest_size(b) + 1);
        else
            lsi_free(block);
    }
    lsi_free(b->times);
    lsi_pattern_free(&b->x.pattern);
}

/* ---- the bench -------------------------------------------------------- */

static ls_status open_buffers(void *opaque)
{
    state *const b = opaque;
    b->x.group = b->common.group;
    b->x.root = (int)b->root;
    b->common.cases =
        b->kinds.n * b->size_list.n * ((size_t)b->places.out + b->places.in);
    LS_TRY(set_kind(b, 0));
    LS_TRY(allocate(b));
    return warm_up(b);
}

/* Whether the algorithm exists; ranks find out whether it can be used. */
static ls_status check_algorithm(const state *b)
{
    const char *const operation = b->collective->select;
    lsi_select_table table = {0};
    char line[128];
    if (b->algorithm == NULL)
        return LS_OK;
    if (operation == NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s has a single algorithm; remove --algorithm",
                        b->collective->name);
    snprintf(line, sizeof(line), "%s:0-1:%.64s", operation, b->algorithm);
    return lsi_select_parse(line, &table);
}

/* --nthreads and -g give the number of ranks where -n does not. */
static ls_status count_ranks(state *b)
{
    if (b->threads == 0 && b->gpus == 0)
        return LS_OK;
    if (b->common.ranks != NULL)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "-n %s and --nthreads or --ngpus both set the number of ranks; "
            "give one of them. To set the number of runs, use --iterations",
            b->common.ranks);
    snprintf(b->ranks, sizeof(b->ranks), "%" PRId64,
             (b->threads > 0 ? b->threads : 1) * (b->gpus > 0 ? b->gpus : 1));
    b->common.ranks = b->ranks;
    return LS_OK;
}

static ls_status parse(void *opaque)
{
    state *const b = opaque;
    b->collective = lsi_bench_collective_find(b->common.name);
    LS_TRY(count_ranks(b));
    if (b->preset != NULL && b->common.ranks == NULL)
        b->common.ranks = "2,4,6";
    LS_TRY(choose_places(b));
    LS_TRY(lsi_bench_kinds_parse(b->dtype, b->op, b->collective->reduces,
                                 &b->kinds));
    LS_TRY(check_algorithm(b));
    return list_sizes(b);
}

/* nccl-tests' last lines: elements that are wrong, and the mean busbw. */
static void foot(const lsi_table *table, FILE *stream)
{
    double wrong = 0, bandwidth = 0, value;
    const size_t rows = lsi_table_row_count(table);
    size_t checked = 0;
    for (size_t row = 0; row < rows; row++) {
        if (lsi_table_number(table, row, "wrong", &value)) {
            wrong += value;
            checked++;
        }
        if (lsi_table_number(table, row, "busbw_gbps", &value))
            bandwidth += value / (double)rows;
    }
    fprintf(stream, "\n# Out of bounds values : ");
    if (checked == 0)
        fprintf(stream, "not checked\n");
    else
        fprintf(stream, "%.0f %s\n", wrong, wrong == 0 ? "OK" : "FAILED");
    fprintf(stream, "# Avg bus bandwidth    : %g\n", bandwidth);
}

#define TEXT                                                                   \
    "The columns have the same names and definitions as in "                   \
    "nccl-tests.\n\nColumn size: bytes of the larger buffer of a rank. "       \
    "Column time: median over the runs; each run begins at a barrier, and "    \
    "its time is that of its slowest rank. Column algbw: size / time. Column " \
    "busbw: algbw x 2(n-1)/n for all-reduce on n ranks; algbw x (n-1)/n for "  \
    "reduce-scatter, all-gather, gather, scatter and all-to-all; algbw for "   \
    "other operations. Column #wrong: number of wrong elements.\n\nThe last "  \
    "lines print the "                                                         \
    "sum of #wrong and the mean busbw of all rows. All runs use the same "     \
    "buffers, so small sizes are measured in the caches. To measure memory, "  \
    "use sizes larger than all caches together. Flags accept sizes with "      \
    "units: 4k and 4KiB mean 4096 bytes, and 4kB means 4000 bytes."

#define BENCH(id, name_, columns_, summary_)                                   \
    const lsi_bench lsi_bench_##id = {                                         \
        .command = {.name = (name_),                                           \
                    .summary = "Measure " summary_,                            \
                    .text = TEXT,                                              \
                    LSI_COMMAND_OPTIONS(options),                              \
                    .run = lsi_bench_run},                                     \
        LSI_BENCH_TABLES(state, columns_),                                     \
        .ranks = "2",                                                          \
        .progress = (name_),                                                   \
        .foot = foot,                                                          \
        .parse = parse,                                                        \
        .open = open_buffers,                                                  \
        .measure = measure,                                                    \
        .close = close_buffers,                                                \
    };

BENCH(all_reduce, "all-reduce", columns,
      "all-reduce: every rank gets the reduction")
BENCH(reduce, "reduce", columns_with_root,
      "reduce: one rank gets the reduction")
BENCH(reduce_scatter, "reduce-scatter", columns,
      "reduce-scatter: each rank gets a reduced block")
BENCH(broadcast, "broadcast", columns_with_root,
      "broadcast: every rank gets the data of one rank")
BENCH(all_gather, "all-gather", columns,
      "all-gather: every rank gets the blocks of all ranks")
BENCH(gather, "gather", columns_with_root,
      "gather: one rank gets the blocks of all ranks")
BENCH(scatter, "scatter", columns_with_root,
      "scatter: each rank gets its block from one rank")
BENCH(all_to_all, "all-to-all", columns,
      "all-to-all: every rank sends a block to each rank")
BENCH(send_recv, "send-recv", columns,
      "send-recv: each rank sends to the next in a ring")
BENCH(barrier, "barrier", columns, "barrier: every rank waits for all ranks")
