/*
 * lockstep bench ddp: training steps of one model under every strategy: how
 * long they take, how long ranks wait for each other, what travels, and what
 * memory is for. All strategies must end with the same weights.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "bench/bench.h"
#include "bench/ddp_case.h"
#include "command/dtype_flag.h"
#include "command/list.h"
#include "command/ranks.h"
#include "parallel/strategy.h"
#include "report/stats.h"

enum { MAX_WAYS = 64 };

typedef struct args {
    lsi_bench_flags common;
    const char *strategies, *bucket_mb, *model, *dtypes;
    int64_t context, batch, budget;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_BENCH_ROWS(common, "2", "5", "10"),
    ROW(strategies, LIST, "strategy", 0, "NAME,...", "all",
        "strategies to measure (docs/parallel.md)"),
    ROW(bucket_mb, LIST, "bucket-mb", 0, "X,...", "1,10,100,1000",
        "bucket sizes, in millions of bytes, of the strategies with buckets"),
    ROW(model, STRING, "model", 0, "MODEL", "mlp",
        "mlp (eight layers, 134 million parameters), mlp:WIDTH, or lm:SIZE, a "
        "Transformer (tiny, small, ...)"),
    ROW(context, INT, "context", 0, "N", "128",
        "tokens of a sequence; the mlp sees each as a row", .min = 1,
        .max = 1 << 20),
    ROW(batch, INT, "batch", 0, "N", "2", "sequences of a rank", .min = 1,
        .max = 1 << 20),
    LSI_DTYPES_ROW(dtypes),
    LSI_DDP_BUDGET_ROW(budget),
};

#define TIME(name_, title_)                                                    \
    {                                                                          \
        .name = (name_), .title = (title_), .unit = "s",                       \
        .type = LSI_COLUMN_REAL, .decimals = 4                                 \
    }
#define HIDDEN(name_)                                                          \
    {                                                                          \
        .name = (name_), .title = "", .type = LSI_COLUMN_INT                   \
    }
#define MEMORY(moment)                                                         \
    HIDDEN("peak_bytes." moment ".parameters"),                                \
        HIDDEN("peak_bytes." moment ".gradients"),                             \
        HIDDEN("peak_bytes." moment ".state"),                                 \
        HIDDEN("peak_bytes." moment ".activations"),                           \
        HIDDEN("peak_bytes." moment ".buckets"),                               \
        HIDDEN("peak_bytes." moment ".total")

static const lsi_column columns[] = {
    {.name = "strategy", .title = "Strategy"},
    {.name = "bucket_mb",
     .title = "Bucket MB",
     .type = LSI_COLUMN_REAL,
     .decimals = 4},
    {.name = "model", .title = "Model"},
    {.name = "dtype", .title = "Type"},
    {.name = "ranks", .title = "Ranks", .type = LSI_COLUMN_INT},
    {.name = "global_batch_size", .title = "Batch", .type = LSI_COLUMN_INT},
    HIDDEN("warmup_steps"),
    HIDDEN("benchmark_steps"),
    TIME("step_time_avg_s", "Step"),
    TIME("step_time_std_s", "std"),
    TIME("comm_time_avg_s", "Comm"),
    TIME("comm_time_std_s", "std"),
    {.name = "comm_frac_avg",
     .title = "Comm/step",
     .type = LSI_COLUMN_REAL,
     .decimals = 4},
    {.name = "comm_frac_std",
     .title = "std",
     .type = LSI_COLUMN_REAL,
     .decimals = 4},
    TIME("forward_s", "Forward"),
    TIME("backward_s", "Backward"),
    TIME("optimizer_s", "Optimizer"),
    {.name = "bytes_sent", .title = "Bytes sent", .type = LSI_COLUMN_INT},
    {.name = "collectives_per_step",
     .title = "Collectives",
     .type = LSI_COLUMN_INT},
    MEMORY("init"),
    MEMORY("before_step"),
    MEMORY("after_step"),
    LSI_DDP_DEMAND_COLUMNS,
};

/* ---- what is measured ---------------------------------------------------- */

typedef struct way {
    const char *strategy;
    double bucket_mb; /* INFINITY: none */
} way;

typedef struct plan {
    lsi_ddp_model_spec model;
    lsi_dtype_list dtypes;
    const args *args;
    way ways[MAX_WAYS];
    size_t n;
} plan;

static ls_status add_way(plan *p, const lsi_strategy *strategy,
                         double bucket_mb)
{
    if (p->n == MAX_WAYS)
        return lsi_fail(LS_ERR_ARGUMENT, "more than %d rows", MAX_WAYS);
    p->ways[p->n++] = (way){strategy->name, bucket_mb};
    return LS_OK;
}

typedef struct sizes {
    plan *plan;
    const lsi_strategy *strategy;
} sizes;

static ls_status add_size(void *context, const char *word)
{
    const sizes *const s = context;
    char *end;
    const double mb = strtod(word, &end);
    if (end == word || *end != '\0' || !(mb > 0) || isinf(mb))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--bucket-mb \"%s\" is no number above 0", word);
    return add_way(s->plan, s->strategy, mb);
}

static ls_status add_strategy(plan *p, const lsi_strategy *strategy)
{
    sizes s = {p, strategy};
    if (strategy->buckets == LSI_BUCKETS_LIMIT)
        return lsi_each_word("--bucket-mb", p->args->bucket_mb, add_size, &s);
    return add_way(p, strategy, INFINITY);
}

static ls_status read_strategy(void *context, const char *word)
{
    const lsi_strategy *found;
    LS_TRY(lsi_strategy_find(word, &found));
    return add_strategy(context, found);
}

static ls_status parse(const args *a, plan *out)
{
    size_t n;
    const lsi_strategy *const all = lsi_strategies(&n);
    *out = (plan){.args = a};
    LS_TRY(lsi_ddp_model_parse(a->model, &out->model));
    LS_TRY(lsi_cli_dtypes(a->dtypes, &out->dtypes));
    out->model.batch = a->batch;
    out->model.context = a->context;
    if (strcmp(a->strategies, "all") != 0)
        return lsi_each_word("--strategy", a->strategies, read_strategy, out);
    for (size_t i = 0; i < n; i++)
        LS_TRY(add_strategy(out, &all[i]));
    return LS_OK;
}

/* ---- recording ----------------------------------------------------------- */

/* Mean and deviation over steps of the number at `offset` of their times. */
static ls_status summarise(const lsi_ddp_case *c, size_t offset, lsi_stats *out)
{
    const size_t n = (size_t)c->steps;
    void *block;
    LS_TRY(lsi_alloc(&block, n * sizeof(double), LS_MEMORY_OTHER,
                     "times of steps"));
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

static ls_status record(const args *a, const lsi_ddp_case *c, lsi_table *table)
{
    const int ranks = ls_group_size(c->group);
    lsi_table_row(table);
    lsi_table_text(table, "strategy", c->strategy);
    lsi_table_real(table, "bucket_mb", c->bucket_mb);
    lsi_table_text(table, "model", a->model);
    lsi_table_text(table, "dtype", ls_dtype_name(c->spec->dtype));
    lsi_table_int(table, "ranks", ranks);
    lsi_table_int(table, "global_batch_size", a->batch * ranks);
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
static ls_status check(const lsi_ddp_case *c, uint64_t *expected, bool *wrong)
{
    const uint64_t hash = lsi_ddp_model_hash(&c->model);
    if (*expected == 0)
        *expected = hash;
    int64_t differs = hash != *expected;
    int64_t low = (int64_t)(hash >> 1), high = low;
    LS_TRY(ls_all_reduce(c->group, &low, &low, 1, LS_I64, LS_MIN));
    LS_TRY(ls_all_reduce(c->group, &high, &high, 1, LS_I64, LS_MAX));
    LS_TRY(ls_all_reduce(c->group, &differs, &differs, 1, LS_I64, LS_MAX));
    if (differs != 0 || low != high)
        *wrong = true;
    return LS_OK;
}

static ls_status measure_way(const args *a, lsi_ddp_case *c, lsi_table *table,
                             uint64_t *expected, bool *wrong)
{
    LS_TRY(lsi_ddp_case_run(c));
    LS_TRY(record(a, c, table));
    LS_TRY(lsi_bench_keep(c->group, table));
    lsi_ddp_case_tell(c);
    return c->fits ? check(c, expected, wrong) : LS_OK;
}

/* Every way with products of one type. */
static ls_status measure_ways(const plan *p, ls_group *group, lsi_table *table,
                              bool *wrong)
{
    uint64_t expected = 0;
    ls_status status = LS_OK;
    for (size_t i = 0; status == LS_OK && i < p->n; i++) {
        lsi_ddp_case c = {.group = group,
                          .spec = &p->model,
                          .strategy = p->ways[i].strategy,
                          .bucket_mb = p->ways[i].bucket_mb,
                          .warmup = p->args->common.warmup,
                          .steps = p->args->common.iterations,
                          .budget = p->args->budget};
        status = measure_way(p->args, &c, table, &expected, wrong);
        lsi_ddp_case_release(&c);
    }
    return status;
}

static ls_status measure(const void *opaque, ls_group *group, lsi_table *table,
                         bool *wrong)
{
    plan p;
    LS_TRY(parse(opaque, &p));
    for (int i = 0; i < p.dtypes.n; i++) {
        p.model.dtype = p.dtypes.values[i];
        LS_TRY(measure_ways(&p, group, table, wrong));
    }
    return LS_OK;
}

static ls_status check_flags(const void *opaque)
{
    plan p;
    return parse(opaque, &p);
}

static const lsi_bench bench = {
    .columns = columns,
    .n_columns = sizeof(columns) / sizeof(columns[0]),
    .ranks = "2",
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

const lsi_command lsi_command_bench_ddp = {
    .name = "ddp",
    .summary = "Compare the strategies of data parallelism",
    .text =
        "A step is forward, backward and AdamW; ranks begin it together, and "
        "it takes as long as the slowest of them. Comm is the time in which a "
        "rank waited for others or sent weights, after backward and around the "
        "optimizer; it and the parts of a step are means over ranks. What a "
        "rank adds up during backward counts as backward. Bytes and "
        "collectives are rank 0's, of one step. The JSON rows also hold "
        "rank 0's peak memory by kind, at the start, before and in the first "
        "step of the optimizer. If strategies do not end with the same bits "
        "the exit status is 1. A strategy for which there is no memory is a "
        "row that says so, with what the ranks of a machine need at least. "
        "Of a bench that is interrupted, the rows so far are shown and "
        "written.",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .run = run,
};
