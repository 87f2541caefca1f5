/*
 * lockstep tune: times every algorithm that the ranks of this machine can use,
 * and prints the line that chooses the fastest. It covers the operations and
 * sizes that the selection table knows.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/bench/bench.h"
#include "cli/bench/collectives.h"
#include "cli/bench/tune.h"
#include "cli/bench/tune_settings.h"
#include "cli/bench/tune_table.h"
#include "cli/frame/list.h"
#include "comm/api/select.h"
#include "comm/api/select_file.h"
#include "comm/coll/algorithm.h"
#include "comm/node/transport.h"
#include "report/result.h"

/* The smallest size leaves the sizes below for this program's own calls. */
enum { ROUNDS = 3, FEW_RUNS = 3, MOST_RUNS = 1000, LEAST_BYTES = 16 };

enum { STORES = 2 }; /* past the caches, or not */

/* Seconds that are enough for long runs, which vary less. */
#define ENOUGH_SECONDS 0.05

/*
 * By which another algorithm than the built-in one must win: more than
 * measuring varies. With more ranks than CPUs it varies by a fifth.
 */
#define WORTH_A_CHANGE         0.05
#define WORTH_A_CHANGE_CROWDED 0.2

/*
 * Of a job that has to be quick: runs, which its time ends earlier, and bytes
 * that all ranks send. The last size serves all larger ones.
 */
enum { QUICK_RUNS = 300, QUICK_BYTES = 8 << 20 };

typedef struct state {
    lsi_bench_common common;
    const char *sizes, *out;
    lsi_list size_list;
    lsi_exercise x;
    unsigned char *buffers[LSI_TUNE_KINDS][2]; /* send, recv */
    size_t bytes;                              /* of each */
    lsi_select_table usual;                    /* built in */
    /* Of the operation that is being measured; algorithms end with NULL. */
    lsi_tune tune;
    const lsi_algorithm *algorithms[LSI_TUNE_ALGORITHMS + 1];
    char settings[64];                    /* at the beginning of each line */
    char line[LSI_SELECT_FILE_BYTES / 2]; /* of the operations before */
    /* For the table of the machine: */
    lsi_tune_table table;
    int lines_fd;   /* of this job, for its line */
    double seconds; /* of this job; 0: as long as it takes */
    double begin;   /* of the operation that is being measured */
    bool late;      /* it has no time left for this round */
} state;

#define SIZES "16,256,1k,4k,16k,32k,64k,128k,256k,512k,1m,4m"

#define ROW(...) LSI_OPTION(state, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_BENCH_ROWS("2", "2", "9"),
    ROW(sizes, LIST, "sizes", 0, "SIZE,...", NULL,
        "sizes to measure, in ascending order: bytes that a rank sends "
        "(default: " SIZES ")"),
    ROW(out, STRING, "out", 'o', "FILE", NULL,
        "write the selection line to FILE; to use this file on this machine, "
        "set LOCKSTEP_SELECT=@FILE"),
};

static const lsi_column columns[] = {
    LSI_COLUMN(TEXT, "op"),
    LSI_COLUMN(INT, "ranks"),
    LSI_COLUMN(INT, "bytes", "size", .unit = "B"),
    LSI_COLUMN(TEXT, "buffers"),
    LSI_COLUMN(TEXT, "algorithm"),
    LSI_COLUMN(REAL, "time_us", "time", .unit = "us", .decimals = 2),
    LSI_COLUMN(BOOL, "chosen"),
};

static const char *const operations[] = {
    "all-reduce", "reduce", "reduce-scatter", "broadcast",
    "all-gather", "gather", "scatter",        "all-to-all"};

enum { OPERATIONS = sizeof(operations) / sizeof(operations[0]) };

static const char *const kinds[LSI_TUNE_KINDS] = {"private", "shared"};

/* ---- measuring -------------------------------------------------------- */

/* Seconds of one run on the slowest rank: the same number on all ranks. */
static ls_status time_run(state *b, const lsi_bench_collective *c,
                          double *seconds)
{
    LS_TRY(ls_barrier(b->x.group));
    const uint64_t start = lsi_clock_ns();
    LS_TRY(c->run(&b->x));
    *seconds = (double)(lsi_clock_ns() - start) * 1e-9;
    return ls_all_reduce(b->x.group, seconds, seconds, 1, LS_F64,
                         LS_REDUCE_MAX);
}

static ls_status check(state *b, const lsi_bench_collective *c)
{
    lsi_bench_collective_fill(c, &b->x);
    LS_TRY(c->run(&b->x));
    int64_t wrong = (int64_t)c->wrong(&b->x);
    LS_TRY(ls_all_reduce(b->x.group, &wrong, &wrong, 1, LS_I64, LS_REDUCE_SUM));
    b->common.wrong |= wrong != 0;
    return LS_OK;
}

static double time_of_operation(const state *b)
{
    return b->seconds / OPERATIONS;
}

/*
 * The median, which a single event cannot move. The least median of all rounds
 * counts: they are far apart, so another process does not disturb each.
 */
static ls_status time_runs(state *b, const lsi_bench_collective *c,
                           double *best)
{
    double runs[MOST_RUNS], seconds = 0;
    lsi_stats stats;
    for (int64_t i = 0; i < b->common.warmup; i++)
        LS_TRY(time_run(b, c, &seconds));
    size_t n = 0;
    double total = 0;
    const lsi_tune *const tune = &b->tune;
    const bool quick = b->seconds > 0;
    const double enough =
        quick ? time_of_operation(b) / (ROUNDS * LSI_TUNE_KINDS * STORES *
                                        tune->n_sizes * tune->n_algorithms)
              : ENOUGH_SECONDS;
    const size_t most = quick ? QUICK_RUNS : (size_t)b->common.iterations;
    while (n < most && n < MOST_RUNS && (n < FEW_RUNS || total < enough)) {
        LS_TRY(time_run(b, c, &runs[n]));
        total += runs[n++];
    }
    LS_TRY(lsi_stats_of(runs, n, &stats));
    if (*best == 0 || stats.median < *best)
        *best = stats.median;
    return LS_OK;
}

/*
 * With both kinds of stores into the windows. A group that uses the table finds
 * out which of them is faster (comm/coll/copy_probe.h), where its CPUs are
 * then.
 */
static ls_status time_algorithm(state *b, const lsi_bench_collective *c,
                                double *best)
{
    bool *const past_caches = &b->x.group->memory.node->past_caches;
    for (int way = 0; way < STORES; way++) {
        *past_caches = !*past_caches;
        LS_TRY(time_runs(b, c, best));
    }
    return LS_OK;
}

/* Leaves 0 if the ranks cannot use the algorithm for these buffers. */
static ls_status measure_algorithm(state *b, const lsi_bench_collective *c,
                                   const lsi_algorithm *algorithm, size_t bytes,
                                   double *seconds)
{
    char line[192];
    if (algorithm->in_cells && bytes > LSI_FLAT_BYTES)
        return LS_OK;
    snprintf(line, sizeof(line), "%s%s:%zu-%zu:%s", b->settings, c->select,
             bytes, bytes + 1, algorithm->name);
    /* Ruled out for this job, or for these buffers: alike on all ranks. */
    ls_status status = ls_group_select(b->x.group, line);
    if (status == LS_ERR_ARGUMENT)
        return LS_OK;
    if (status == LS_OK)
        status = check(b, c);
    if (status == LS_ERR_UNSUPPORTED)
        return LS_OK;
    LS_TRY(status);
    return time_algorithm(b, c, seconds);
}

/* ---- an operation ----------------------------------------------------- */

/* Only algorithms that add in the common order: a table changes no bits. */
static void begin_operation(state *b, const lsi_bench_collective *c)
{
    const lsi_algorithm *row;
    lsi_tune *const tune = &b->tune;
    b->begin = lsi_clock_seconds();
    *tune = (lsi_tune){.operation = c->select,
                       .n_sizes = (int)b->size_list.n,
                       .margin = b->x.group->memory.few_cpus
                                     ? WORTH_A_CHANGE_CROWDED
                                     : WORTH_A_CHANGE};
    memset(b->algorithms, 0, sizeof(b->algorithms));
    for (int i = 0; (row = lsi_algorithm_at(i)) != NULL; i++) {
        if (row->own_order ||
            strcmp(lsi_operation_name(row->operation), c->select) != 0 ||
            tune->n_algorithms == LSI_TUNE_ALGORITHMS)
            continue;
        const bool direct = (row->needs & LSI_PATH_SEND_SEEN) != 0;
        b->algorithms[tune->n_algorithms] = row;
        tune->algorithms[tune->n_algorithms++] =
            (lsi_tune_algorithm){.name = row->name,
                                 .in_cells = row->in_cells,
                                 .direct = direct,
                                 .limited = row->needs != 0 && !direct};
    }
}

static ls_status measure_size(state *b, const lsi_bench_collective *c,
                              size_t at)
{
    const size_t n = (size_t)ls_group_size(b->x.group);
    const size_t unit = ls_dtype_size(LS_F32) * (c->sends_blocks ? n : 1);
    lsi_tune_times *times = &b->tune.times[at];
    times->bytes = (size_t)b->size_list.values[at];
    /* The bytes sent are the size in whole units, at least one unit. */
    b->x.count = times->bytes < unit ? 1 : times->bytes / unit;
    for (int kind = 0; kind < LSI_TUNE_KINDS; kind++) {
        b->x.send = b->buffers[kind][0];
        b->x.recv = b->buffers[kind][c->out_of_place ? 1 : 0];
        for (int i = 0; b->algorithms[i] != NULL; i++)
            LS_TRY(measure_algorithm(b, c, b->algorithms[i], b->x.count * unit,
                                     &times->seconds[kind][i]));
    }
    return LS_OK;
}

static void add_rows(state *b, const lsi_bench_collective *c)
{
    const lsi_tune *const tune = &b->tune;
    for (int s = 0; s < tune->n_sizes; s++)
        for (int kind = 0; kind < LSI_TUNE_KINDS; kind++)
            for (int i = 0; i < tune->n_algorithms; i++) {
                const double seconds = tune->times[s].seconds[kind][i];
                const int chosen = kind == LSI_TUNE_SHARED
                                       ? tune->choices[s].shared
                                       : tune->choices[s].other;
                if (seconds == 0)
                    continue;
                lsi_table_row(b->common.table);
                lsi_table_text(b->common.table, "op", c->name);
                lsi_table_int(b->common.table, "ranks",
                              ls_group_size(b->x.group));
                lsi_table_int(b->common.table, "bytes",
                              (int64_t)tune->times[s].bytes);
                lsi_table_text(b->common.table, "buffers", kinds[kind]);
                lsi_table_text(b->common.table, "algorithm",
                               tune->algorithms[i].name);
                lsi_table_real(b->common.table, "time_us", seconds * 1e6);
                lsi_table_bool(b->common.table, "chosen", i == chosen);
            }
}

/* The built-in table's algorithm, of those that could be measured. */
static int usual_of(const state *b, lsi_operation operation, int size, int kind)
{
    const lsi_tune_times *const times = &b->tune.times[size];
    const lsi_algorithm *const *const candidates =
        lsi_select_find(&b->usual, operation, times->bytes);
    for (int c = 0; c < LSI_CANDIDATES && candidates[c] != NULL; c++)
        for (int i = 0; i < b->tune.n_algorithms; i++)
            if (b->algorithms[i] == candidates[c] &&
                times->seconds[kind][i] != 0)
                return i;
    return 0;
}

static void choose(state *b)
{
    lsi_tune *const tune = &b->tune;
    const lsi_operation operation = b->algorithms[0]->operation;
    for (int s = 0; s < tune->n_sizes; s++)
        tune->usual[s] = (lsi_tune_choice){
            .shared = usual_of(b, operation, s, LSI_TUNE_SHARED),
            .other = usual_of(b, operation, s, LSI_TUNE_PRIVATE)};
    lsi_tune_choose(tune);
}

/* Adds the rows of an operation, and its part of the selection line. */
static void end_operation(state *b, const lsi_bench_collective *c)
{
    size_t used = strlen(b->line);
    if (used == 0)
        used = (size_t)snprintf(b->line, sizeof(b->line), "%s", b->settings);
    else
        b->line[used++] = ',';
    choose(b);
    add_rows(b, c);
    (void)lsi_tune_line(&b->tune, LSI_FLAT_BYTES, b->line + used,
                        sizeof(b->line) - used);
    /* The reduction of a range in uneven parts has the same algorithms. */
    if (strcmp(b->tune.operation, "reduce_scatter") == 0) {
        used = strlen(b->line);
        b->line[used++] = ',';
        b->tune.operation = "reduce_shards";
        (void)lsi_tune_line(&b->tune, LSI_FLAT_BYTES, b->line + used,
                            sizeof(b->line) - used);
    }
}

/* ---- the line --------------------------------------------------------- */

static bool prints_rows(const lsi_bench_common *common)
{
    return lsi_result_is_stdout(common->json) ||
           lsi_result_is_stdout(common->csv);
}

static ls_status report(const state *b)
{
    char text[LSI_SELECT_FILE_BYTES];
    if (ls_group_rank(b->x.group) != 0)
        return LS_OK;
    if (b->seconds > 0)
        return lsi_tune_table_hand_over(b->lines_fd, b->line);
    if (!prints_rows(&b->common)) {
        printf("LOCKSTEP_SELECT='%s'\n\n", b->line);
        fflush(stdout);
    }
    if (b->out == NULL)
        return LS_OK;
    (void)lsi_select_file_text(b->line, ls_group_size(b->x.group), text,
                               sizeof(text));
    return lsi_result_write(b->out, text, strlen(text));
}

static ls_status measure_settings(state *b)
{
    unsigned char *const *const own = b->buffers[LSI_TUNE_PRIVATE];
    const int64_t bytes =
        b->size_list.values[b->size_list.n - 1] * ls_group_size(b->x.group);
    if (bytes < LSI_TUNE_SETTINGS_BYTES)
        return LS_OK; /* the buffers are too small */
    return lsi_tune_settings(b->x.group, (void *)own[0], (void *)own[1],
                             b->settings, sizeof(b->settings));
}

/* Rank 0 decides whether there is time for another round. */
static ls_status look_at_clock(state *b)
{
    int32_t late =
        b->seconds > 0 && lsi_clock_seconds() - b->begin > time_of_operation(b);
    LS_TRY(ls_broadcast(b->x.group, &late, 1, LS_I32, 0));
    b->late = late != 0;
    return LS_OK;
}

/* All sizes of an operation in turn, and that in rounds; then the next. */
static ls_status measure(void *opaque, size_t i)
{
    state *const b = opaque;
    const size_t n = b->size_list.n, each = ROUNDS * n;
    const lsi_bench_collective *const c =
        lsi_bench_collective_find(operations[i / each]);
    if (i == 0)
        LS_TRY(measure_settings(b));
    if (i % each == 0)
        begin_operation(b, c);
    if (i % n == 0)
        LS_TRY(look_at_clock(b));
    if (!b->late)
        LS_TRY(measure_size(b, c, i % n));
    if (i % each < each - 1)
        return LS_OK;
    end_operation(b, c);
    if (i / each < OPERATIONS - 1)
        return LS_OK;
    LS_TRY(ls_group_select(b->x.group, b->line)); /* or it is of no use */
    return report(b);
}

static void describe(const void *opaque, size_t i, char *note, size_t bytes)
{
    const state *const b = opaque;
    snprintf(note, bytes, "%d ranks, %s", ls_group_size(b->x.group),
             operations[i / (ROUNDS * b->size_list.n)]);
}

/* ---- the bench -------------------------------------------------------- */

/*
 * Private buffers have no huge pages, as the memory of most programs. The
 * kernel's copy pins each page: with huge ones it wins from 256 KiB on where it
 * takes three times as long with others.
 */
static ls_status map_small_pages(size_t bytes, unsigned char **out)
{
    void *block;
    LS_TRY(lsi_bench_map(bytes, &block));
    (void)madvise(block, bytes, MADV_NOHUGEPAGE);
    memset(block, 0, bytes);
    *out = block;
    return LS_OK;
}

static ls_status open_buffers(void *opaque)
{
    state *const b = opaque;
    lsi_list *const list = &b->size_list;
    if (lsi_tune_table_job(&b->lines_fd, &b->seconds))
        while (list->n > 1 &&
               list->values[list->n - 1] * ls_group_size(b->common.group) >
                   QUICK_BYTES)
            list->n--;
    b->common.cases = OPERATIONS * ROUNDS * b->size_list.n;
    b->x.group = b->common.group;
    b->usual = *b->x.group->select;
    lsi_select_default(&b->usual);
    b->x.dtype = LS_F32;
    b->x.op = LS_REDUCE_SUM;
    const size_t n = (size_t)ls_group_size(b->x.group);
    b->bytes = n * (size_t)b->size_list.values[b->size_list.n - 1];
    void *block;
    for (int i = 0; i < 2; i++) {
        LS_TRY(map_small_pages(b->bytes, &b->buffers[LSI_TUNE_PRIVATE][i]));
        LS_TRY(ls_shared_alloc(b->x.group, b->bytes, &block));
        b->buffers[LSI_TUNE_SHARED][i] = block;
    }
    return lsi_pattern_new(&b->x.pattern, (int)n, LS_F32, LS_REDUCE_SUM);
}

static void close_buffers(void *opaque)
{
    state *const b = opaque;
    for (int i = 0; i < 2; i++) {
        void *block = b->buffers[LSI_TUNE_SHARED][i];
        if (b->buffers[LSI_TUNE_PRIVATE][i] != NULL)
            munmap(b->buffers[LSI_TUNE_PRIVATE][i], b->bytes);
        if (block != NULL)
            ls_ignore(ls_shared_free(b->x.group, &block));
    }
    lsi_pattern_free(&b->x.pattern);
}

static ls_status parse(void *opaque)
{
    state *const b = opaque;
    lsi_list *const list = &b->size_list;
    if (b->common.ranks != NULL && strchr(b->common.ranks, ',') != NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--ranks %s: a selection line is valid for only one "
                        "number of ranks; give one number",
                        b->common.ranks);
    LS_TRY(lsi_result_check(b->out));
    LS_TRY(lsi_list_of_sizes("--sizes", b->sizes != NULL ? b->sizes : SIZES,
                             LEAST_BYTES, INT64_C(1) << 30, list));
    if (list->n > LSI_TUNE_SIZES)
        return lsi_fail(LS_ERR_ARGUMENT, "--sizes lists more than %d sizes",
                        (int)LSI_TUNE_SIZES);
    for (size_t i = 1; i < list->n; i++)
        if (list->values[i] <= list->values[i - 1])
            return lsi_fail(LS_ERR_ARGUMENT,
                            "--sizes %s is not in ascending order", b->sizes);
    return LS_OK;
}

/* ---- the table of the machine ------------------------------------------ */

/* Flags that ask for one line ask for no table. */
static ls_status plan(void *opaque, lsi_list *ranks)
{
    state *const b = opaque;
    if (b->common.ranks != NULL || b->sizes != NULL || b->out != NULL)
        return LS_OK;
    b->common.hides_rows = !b->common.wide;
    return lsi_tune_table_plan(&b->table, ranks);
}

static ls_status before(void *opaque, size_t job, int ranks)
{
    state *const b = opaque;
    LS_TRY(lsi_bench_set_variable("LOCKSTEP_TUNE", "off"));
    return b->table.jobs == 0 ? LS_OK
                              : lsi_tune_table_before(&b->table, job, ranks);
}

static ls_status conclude(void *opaque)
{
    state *const b = opaque;
    return b->table.jobs == 0
               ? LS_OK
               : lsi_tune_table_keep(&b->table,
                                     prints_rows(&b->common) ? NULL : stdout);
}

const lsi_bench lsi_bench_tune = {
    .command =
        {.name = "tune",
         .summary = "Measure the fastest collectives of this machine",
         .text =
             "Times every algorithm for all-reduce, reduce, reduce-scatter, "
             "broadcast, all-gather, gather, scatter and all-to-all (f32, "
             "sum), with private and with shared buffers. Algorithms that add "
             "in another order than the others (ring, nodes) are left out, so "
             "results do not depend on the choice.\n\n"
             "Without --ranks, --sizes and --out, measures 2 ranks up to the "
             "number of CPUs (at most 8), and more ranks than CPUs, in less "
             "than 20 seconds. Saves the selection table of this machine "
             "as " LSI_KEPT_TABLE_HELP
             ". From then on all groups on these CPUs use "
             "the table, unless LOCKSTEP_TUNE=off or LOCKSTEP_SELECT is set; "
             "`lockstep info` shows it. Under a launcher (lockstep run, "
             "torchrun, mpirun) it saves no table and prints the line for its "
             "number of ranks.\n\n"
             "With one of these flags, prints the selection line for one "
             "number of ranks and saves no table. To use the line, set "
             "LOCKSTEP_SELECT to the line. Or save the line with --out FILE, "
             "and set LOCKSTEP_SELECT=@FILE.\n\n"
             "If one entry of a line applies to both kinds of "
             "buffers, the entry names the algorithm with the smallest product "
             "of the two times. An algorithm other than the built-in one must "
             "win by more than 5%, or 20% with more ranks than CPUs.",
         LSI_COMMAND_OPTIONS(options),
         .run = lsi_bench_run},
    LSI_BENCH_TABLES(state, columns),
    .ranks = "2",
    .progress = "tune",
    .at_end = true,
    .parse = parse,
    .plan = plan,
    .before = before,
    .conclude = conclude,
    .open = open_buffers,
    .measure = measure,
    .describe = describe,
    .close = close_buffers,
};
