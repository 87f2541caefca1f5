/*
 * lockstep bench ddp: training steps of one model under every strategy: their
 * time, the time that ranks wait for each other, the bytes sent, and the uses
 * of memory. All strategies must end with the same weights.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "cli/bench/bench.h"
#include "cli/bench/ddp_case.h"
#include "cli/bench/doubt.h"
#include "cli/frame/dtype_flag.h"
#include "cli/frame/list.h"
#include "model/parallel/strategy.h"
#include "report/stats.h"

enum { MAX_WAYS = 64 };

/* One row of each type. */
typedef struct way {
    ls_ddp_strategy strategy;
    double bucket_mb; /* INFINITY: none */
} way;

typedef struct state {
    lsi_bench_common common;
    const char *strategies, *bucket_mb, *dtypes;
    lsi_ddp_model_flags model;
    int64_t context, batch, budget;
    lsi_ddp_model_spec spec;
    lsi_dtype_list types;
    way ways[MAX_WAYS];
    size_t n_ways;
    uint64_t expected; /* hash of the weights after the first way of a type */
} state;

#define ROW(...) LSI_OPTION(state, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_BENCH_ROWS("2", "5", "10"),
    ROW(strategies, LIST, "strategy", 0, "NAME,...", "all",
        "strategies to measure; shared keeps one copy of the weights per "
        "node, fsdp divides one over all nodes (docs/concepts/parallel.md)"),
    ROW(bucket_mb, LIST, "bucket-mb", 0, "X,...", "1,10,100,1000",
        "bucket sizes in MB (10^6 bytes), for strategies that use buckets"),
    LSI_DDP_MODEL_ROWS(model),
    ROW(context, INT, "context", 0, "N", "128",
        "tokens per sequence; an mlp treats each token as one row of its input",
        .min = 1, .max = 1 << 20),
    ROW(batch, INT, "batch-size", 'b', "N", "4", "sequences per rank", .min = 1,
        .max = 1 << 20),
    LSI_DTYPES_ROW(dtypes),
    LSI_BUDGET_ROW(budget, " for all ranks of a machine together"),
};

#define TIME(...)     LSI_COLUMN(REAL, __VA_ARGS__, .decimals = 4, .width = 6)
#define HIDDEN(name_) LSI_COLUMN(INT, name_, "")
#define MEMORY(moment)                                                         \
    HIDDEN("peak_bytes." moment ".parameters"),                                \
        HIDDEN("peak_bytes." moment ".gradients"),                             \
        HIDDEN("peak_bytes." moment ".state"),                                 \
        HIDDEN("peak_bytes." moment ".activations"),                           \
        HIDDEN("peak_bytes." moment ".buckets"),                               \
        HIDDEN("peak_bytes." moment ".total")

static const lsi_column columns[] = {
    LSI_COLUMN(TEXT, "strategy", "Strategy", .width = 8),
    LSI_COLUMN(REAL, "bucket_mb", "Bucket", .unit = "MB", .decimals = 3,
               .width = 8),
    LSI_COLUMN(TEXT, "model", "Model", .wide = true, .width = 8),
    LSI_COLUMN(TEXT, "dtype", "Type"),
    LSI_COLUMN(INT, "ranks", "Ranks"),
    LSI_COLUMN(INT, "batch", "Batch"),
    LSI_LM_SHAPE_COLUMNS,
    HIDDEN("global_batch_size"),
    HIDDEN("warmup_steps"),
    HIDDEN("benchmark_steps"),
    TIME("step_time_avg_s", "Step", .unit = "s"),
    TIME("step_time_std_s", "std"),
    LSI_COLUMN(REAL, "step_time_min_s", ""),
    LSI_COLUMN(REAL, "step_time_q1_s", ""),
    LSI_COLUMN(REAL, "step_time_q3_s", ""),
    TIME("comm_time_avg_s", "Comm"),
    TIME("comm_time_std_s", "std", .wide = true),
    TIME("comm_frac_avg", "Comm/step"),
    TIME("comm_frac_std", "std", .wide = true),
    TIME("forward_s", "Forward", .unit = "s", .wide = true),
    TIME("backward_s", "Backward", .wide = true),
    TIME("optimizer_s", "Optimizer", .wide = true),
    LSI_COLUMN(INT, "bytes_sent", "Bytes sent", .wide = true),
    LSI_COLUMN(INT, "collectives_per_step", "Collectives", .wide = true),
    MEMORY("init"),
    MEMORY("before_step"),
    MEMORY("after_step"),
    LSI_DDP_DEMAND_COLUMNS,
};

/* ---- what is measured ---------------------------------------------------- */

static ls_status add_way(state *b, const lsi_strategy *strategy,
                         double bucket_mb)
{
    if (b->n_ways == MAX_WAYS)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--strategy and --bucket-mb give more than %d cases; "
                        "name fewer strategies or sizes",
                        MAX_WAYS);
    b->ways[b->n_ways++] = (way){strategy->id, bucket_mb};
    return LS_OK;
}

typedef struct sizes {
    state *state;
    const lsi_strategy *strategy;
} sizes;

static ls_status add_size(void *context, const char *word)
{
    const sizes *const s = context;
    char *end;
    const double mb = strtod(word, &end);
    if (end == word || *end != '\0' || !(mb > 0) || isinf(mb))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--bucket-mb '%s' is not a number above 0", word);
    return add_way(s->state, s->strategy, mb);
}

static ls_status add_strategy(state *b, const lsi_strategy *strategy)
{
    sizes s = {b, strategy};
    if (strategy->buckets == LSI_BUCKETS_LIMIT)
        return lsi_each_word("--bucket-mb", b->bucket_mb, add_size, &s);
    return add_way(b, strategy, INFINITY);
}

static ls_status read_strategy(void *context, const char *word)
{
    ls_ddp_strategy strategy;
    const lsi_strategy *found;
    LS_TRY(ls_ddp_strategy_parse(word, &strategy));
    LS_TRY(lsi_strategy_find(strategy, &found));
    return add_strategy(context, found);
}

static ls_status parse(void *opaque)
{
    state *const b = opaque;
    size_t n;
    const lsi_strategy *const all = lsi_strategies(&n);
    LS_TRY(lsi_ddp_model_parse(&b->model, &b->spec));
    LS_TRY(lsi_cli_dtypes(b->dtypes, &b->types));
    b->spec.batch = b->batch;
    b->spec.context = b->context;
    if (strcmp(b->strategies, "all") != 0)
        LS_TRY(lsi_each_word("--strategy", b->strategies, read_strategy, b));
    else
        for (size_t i = 0; i < n; i++)
            LS_TRY(add_strategy(b, &all[i]));
    b->common.cases = (size_t)b->types.n * b->n_ways;
    return LS_OK;
}

/* ---- recording ----------------------------------------------------------- */

/* Mean and deviation over steps of the number at `offset` of their times. */
static ls_status summarise(const lsi_ddp_case *c, size_t offset, lsi_stats *out)
{
    const size_t n = (size_t)c->steps;
    void *block;
    LS_TRY(lsi_alloc(&block, n * sizeof(double), LS_MEMORY_OTHER,
                     "measured step times"));
    for (size_t i = 0; i < n; i++)
        memcpy((double *)block + i, (const char *)&c->times[i] + offset,
               sizeof(double));
    const ls_status status = lsi_stats_of(block, n, out);
    lsi_free(block);
    return status;
}

static ls_status record_times(const lsi_ddp_case *c, lsi_table *table)
{
    static const struct {
        const char *avg, *std;
        size_t offset;
    } rows[] = {
        {"step_time_avg_s", "step_time_std_s", offsetof(lsi_ddp_times, step)},
        {"comm_time_avg_s", "comm_time_std_s", offsetof(lsi_ddp_times, comm)},
        {"comm_frac_avg", "comm_frac_std", offsetof(lsi_ddp_times, fraction)},
        {"forward_s", NULL, offsetof(lsi_ddp_times, forward)},
        {"backward_s", NULL, offsetof(lsi_ddp_times, backward)},
        {"optimizer_s", NULL, offsetof(lsi_ddp_times, optimizer)},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        lsi_stats stats;
        LS_TRY(summarise(c, rows[i].offset, &stats));
        lsi_table_real(table, rows[i].avg, stats.mean);
        if (rows[i].std != NULL)
            lsi_table_real(table, rows[i].std, stats.std);
        if (i > 0)
            continue;
        lsi_table_real(table, "step_time_min_s", stats.min);
        lsi_table_real(table, "step_time_q1_s", stats.q1);
        lsi_table_real(table, "step_time_q3_s", stats.q3);
    }
    return LS_OK;
}

static void record_peak(lsi_table *table, const char *moment, const char *kind,
                        int64_t bytes)
{
    char name[64];
    snprintf(name, sizeof(name), "peak_bytes.%s.%s", moment, kind);
    lsi_table_int(table, name, bytes);
}

static void record_memory(const lsi_ddp_case *c, lsi_table *table)
{
    for (int i = 0; i < LSI_DDP_MOMENTS; i++) {
        const lsi_ddp_peaks *const m = &c->peaks[i];
        record_peak(table, lsi_ddp_moment_names[i], "parameters",
                    m->parameters);
        record_peak(table, lsi_ddp_moment_names[i], "gradients", m->gradients);
        record_peak(table, lsi_ddp_moment_names[i], "state", m->state);
        record_peak(table, lsi_ddp_moment_names[i], "activations",
                    m->activations);
        record_peak(table, lsi_ddp_moment_names[i], "buckets", m->buckets);
        record_peak(table, lsi_ddp_moment_names[i], "total", m->total);
    }
}

static ls_status record(const state *b, const lsi_ddp_case *c)
{
    lsi_table *const table = b->common.table;
    const int ranks = ls_group_size(c->group);
    lsi_table_row(table);
    lsi_table_text(table, "strategy", ls_ddp_strategy_name(c->strategy));
    lsi_table_real(table, "bucket_mb", c->bucket_mb);
    lsi_table_text(table, "model", b->spec.name);
    lsi_table_text(table, "dtype", ls_dtype_name(c->spec->dtype));
    lsi_table_int(table, "ranks", ranks);
    lsi_table_int(table, "batch", b->batch);
    lsi_table_int(table, "global_batch_size", b->batch * ranks);
    if (b->spec.is_lm)
        lsi_cli_lm_record_shape(&b->spec.config, table);
    lsi_table_int(table, "warmup_steps", c->warmup);
    lsi_table_int(table, "benchmark_steps", c->steps);
    lsi_ddp_case_record_demand(c, table);
    if (!c->fits)
        return LS_OK;
    LS_TRY(record_times(c, table));
    lsi_table_int(table, "bytes_sent", (int64_t)c->bytes);
    lsi_table_int(table, "collectives_per_step", (int64_t)c->collectives);
    record_memory(c, table);
    return LS_OK;
}

/* ---- all rows ------------------------------------------------------------ */

/* Every rank has, and every strategy has led to, the same weights. */
static ls_status check(state *b, const lsi_ddp_case *c)
{
    const uint64_t hash = lsi_ddp_model_hash(&c->model);
    if (b->expected == 0)
        b->expected = hash;
    int64_t differs = hash != b->expected;
    int64_t low = (int64_t)(hash >> 1), high = low;
    LS_TRY(ls_all_reduce(c->group, &low, &low, 1, LS_I64, LS_REDUCE_MIN));
    LS_TRY(ls_all_reduce(c->group, &high, &high, 1, LS_I64, LS_REDUCE_MAX));
    LS_TRY(
        ls_all_reduce(c->group, &differs, &differs, 1, LS_I64, LS_REDUCE_MAX));
    b->common.wrong |= differs != 0 || low != high;
    return LS_OK;
}

static ls_status measure_way(state *b, lsi_ddp_case *c)
{
    LS_TRY(lsi_ddp_case_run(c));
    LS_TRY(record(b, c));
    if (c->fits)
        return check(b, c);
    lsi_ddp_case_note_reason(c, &b->common);
    return LS_OK;
}

/* Every way with products of one type, then of the next. */
static ls_status measure(void *opaque, size_t i)
{
    state *const b = opaque;
    const way *const w = &b->ways[i % b->n_ways];
    if (i % b->n_ways == 0)
        b->expected = 0;
    b->spec.dtype = b->types.values[i / b->n_ways];
    lsi_ddp_case c = {.group = b->common.group,
                      .spec = &b->spec,
                      .strategy = w->strategy,
                      .bucket_mb = w->bucket_mb,
                      .warmup = b->common.warmup,
                      .steps = b->common.iterations,
                      .budget = b->budget};
    const ls_status status = measure_way(b, &c);
    lsi_ddp_case_release(&c);
    return status;
}

static void foot(const lsi_table *table, FILE *stream)
{
    lsi_bench_doubt(
        table,
        (lsi_bench_time){"step_time_avg_s", "step_time_q1_s", "step_time_q3_s"},
        stream);
}

const lsi_bench lsi_bench_ddp = {
    .command =
        {.name = "ddp",
         .summary = "Compare data-parallel strategies",
         .text =
             "A step is forward, backward and AdamW. Ranks begin each step "
             "together; the time of a step is that of its slowest rank. Comm "
             "is the time in which a rank waits for other ranks or sends "
             "weights, after backward and around the optimizer. Reductions "
             "during backward count as backward. Comm, forward, backward and "
             "optimizer times are means over ranks. Bytes sent and collectives "
             "are counted on rank 0, for one step. The JSON rows also contain "
             "the peak memory of rank 0 by kind at " LSI_DDP_MOMENTS_HELP
             " All strategies must compute the same bits; otherwise the exit "
             "status is 1. " LSI_DDP_DEMAND_HELP
             " If interrupted, prints and writes the rows measured so far.",
         LSI_COMMAND_OPTIONS(options),
         .run = lsi_bench_run},
    .foot = foot,
    LSI_BENCH_TABLES(state, columns),
    .ranks = "2",
    .parse = parse,
    .measure = measure,
};
