/*
 * lockstep bench zero: savings and costs of sharding the optimizer's state
 * among ranks. It measures memory at three moments and bytes of a step, next to
 * those of a formula, and the time of a step.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/bench/bench.h"
#include "cli/bench/ddp_case.h"
#include "model/parallel/grad_range.h"

/* How far measured bytes may be from the formula. */
static const double tolerance = 0.05;

/* Each parameter is a bucket. */
static const double LEAST_BUCKET_MB = 1e-6;

typedef struct state {
    lsi_bench_common common;
    lsi_ddp_model_flags model;
    int64_t context, batch, budget;
    lsi_ddp_model_spec spec;
} state;

#define ROW(...) LSI_OPTION(state, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_BENCH_ROWS("2", "2", "5"),
    LSI_DDP_MODEL_ROWS(model),
    ROW(context, INT, "context", 0, "N", "128",
        "tokens per sequence; an mlp treats each token as one row of its input",
        .min = 1, .max = 1 << 20),
    ROW(batch, INT, "batch-size", 'b', "N", "4", "sequences per rank", .min = 1,
        .max = 1 << 20),
    LSI_BUDGET_ROW(budget, " for all ranks of a machine together"),
};

static const lsi_column columns[] = {
    LSI_COLUMN(TEXT, "strategy", "Strategy", .width = 8),
    LSI_COLUMN(TEXT, "model", "Model", .wide = true, .width = 8),
    LSI_COLUMN(INT, "ranks", "Ranks", .wide = true),
    LSI_COLUMN(INT, "batch", "Batch"),
    LSI_LM_SHAPE_COLUMNS,
    LSI_COLUMN(TEXT, "moment", "Moment", .width = 11),
    LSI_COLUMN(INT, "parameters.bytes", "Parameters", .width = 10),
    LSI_COLUMN(INT, "parameters.formula", "formula", .wide = true, .width = 10),
    LSI_COLUMN(INT, "gradients.bytes", "Gradients", .width = 10),
    LSI_COLUMN(INT, "gradients.formula", "formula", .wide = true, .width = 10),
    LSI_COLUMN(INT, "state.bytes", "State", .width = 10),
    LSI_COLUMN(INT, "state.formula", "formula", .wide = true, .width = 10),
    LSI_COLUMN(INT, "activations.bytes", "Activations", .wide = true),
    LSI_COLUMN(INT, "total.bytes", "Total", .width = 10),
    LSI_COLUMN(INT, "bytes_sent.bytes", "Sent", .wide = true, .width = 10),
    LSI_COLUMN(INT, "bytes_sent.formula", "formula", .wide = true, .width = 10),
    LSI_COLUMN(REAL, "step_time_avg_s", "Step", .unit = "s", .decimals = 4,
               .wide = true),
    LSI_DDP_DEMAND_COLUMNS,
};

/* Bytes of the largest parameter. */
static double largest_bytes(ls_params *params)
{
    int64_t largest = 0;
    for (size_t i = 0; i < ls_params_count(params); i++) {
        const int64_t count = ls_tensor_count(ls_params_get(params, i));
        largest = count > largest ? count : largest;
    }
    return 4.0 * (double)largest;
}

/*
 * Bytes that a rank holds, and sends in a step, for P trained parameters of 4
 * bytes on N ranks, with AdamW.
 */
typedef struct formula {
    ls_ddp_strategy strategy;
    bool one_copy, divided;
    bool gradients; /* whether gradients are sharded, too */
    int sent;       /* bytes sent, in units of 4 P (N - 1) / N */
} formula;

static const formula formulas[] = {
    {LS_DDP_FLAT, false, false, false, 2},
    {LS_DDP_OWNERS, false, true, false, 3}, /* on average over ranks */
    {LS_DDP_ZERO1, false, true, false, 2},
    {LS_DDP_SHARED, true, true, false, 1},
    {LS_DDP_FSDP, true, true, true, 1},
};

/*
 * Expected bytes, and how many fewer are allowed; see
 * docs/concepts/parallel.md.
 */
typedef struct expectation {
    double parameters, gradients, state, sent;
    double fewer_gradients;
} expectation;

static expectation expect(const formula *f, ls_params *params, int ranks,
                          bool used)
{
    size_t floats;
    ls_params_flat_grad(params, &floats);
    const double bytes = 4.0 * (double)floats, n = ranks;
    expectation e = {.parameters = f->one_copy ? bytes / n : bytes,
                     .gradients = f->gradients ? bytes / n : bytes,
                     .state = f->divided ? 2 * bytes / n : 2 * bytes,
                     .sent = f->sent * bytes * (n - 1) / n};
    if (f->gradients && used) {
        e.fewer_gradients = 2 * largest_bytes(params);
        e.gradients += e.fewer_gradients;
    }
    return e;
}

/* ---- recording ----------------------------------------------------------- */

/*
 * Parts begin at pages. The weight of the samples is sent, too, and a product
 * needs a bias in addition to its weights.
 */
static bool is_near(double got, double expected, double fewer, int ranks)
{
    const double slack = 4.0 * 4 * LSI_SHARD_UNIT * ranks;
    return got <= (1 + tolerance) * expected + slack &&
           got >= (1 - tolerance) * (expected - fewer) - slack;
}

static double mean_step(const lsi_ddp_case *c)
{
    double sum = 0;
    for (int64_t i = 0; i < c->steps; i++)
        sum += c->times[i].step;
    return sum / (double)c->steps;
}

/* Peaks at `moment`, as means over ranks. */
static ls_status mean_peaks(const lsi_ddp_case *c, int moment,
                            lsi_ddp_peaks *out)
{
    enum { N = sizeof(*out) / sizeof(int64_t) };
    const int64_t size = ls_group_size(c->group);
    int64_t sums[N];
    memcpy(sums, &c->peaks[moment], sizeof(sums));
    LS_TRY(ls_all_reduce(c->group, sums, sums, N, LS_I64, LS_REDUCE_SUM));
    for (size_t i = 0; i < N; i++)
        sums[i] /= size;
    memcpy(out, sums, sizeof(sums));
    return LS_OK;
}

static void record_pair(lsi_table *table, const char *what, double bytes,
                        double expected)
{
    char name[48];
    snprintf(name, sizeof(name), "%s.bytes", what);
    lsi_table_int(table, name, (int64_t)bytes);
    snprintf(name, sizeof(name), "%s.formula", what);
    lsi_table_int(table, name, (int64_t)expected);
}

static bool as_expected(const lsi_ddp_peaks *m, const expectation *e, int ranks)
{
    return is_near((double)m->parameters, e->parameters, 0, ranks) &&
           is_near((double)m->gradients, e->gradients, e->fewer_gradients,
                   ranks) &&
           is_near((double)m->state, e->state, 0, ranks);
}

static void record_memory(const lsi_ddp_peaks *m, const expectation *e,
                          lsi_table *table)
{
    record_pair(table, "parameters", (double)m->parameters, e->parameters);
    record_pair(table, "gradients", (double)m->gradients, e->gradients);
    record_pair(table, "state", (double)m->state, e->state);
    lsi_table_int(table, "activations.bytes", m->activations);
    lsi_table_int(table, "total.bytes", m->total);
}

static void begin_row(const state *b, const lsi_ddp_case *c)
{
    lsi_table *const table = b->common.table;
    lsi_table_row(table);
    lsi_table_text(table, "strategy", ls_ddp_strategy_name(c->strategy));
    lsi_table_text(table, "model", b->spec.name);
    lsi_table_int(table, "ranks", ls_group_size(c->group));
    lsi_table_int(table, "batch", b->batch);
    if (b->spec.is_lm)
        lsi_cli_lm_record_shape(&b->spec.config, table);
    lsi_ddp_case_record_demand(c, table);
}

/* All numbers are means over ranks: whole parameters divide unevenly. */
static ls_status record(state *b, const lsi_ddp_case *c, const formula *f)
{
    lsi_table *const table = b->common.table;
    double sent = (double)c->bytes;
    const int ranks = ls_group_size(c->group);
    expectation e = expect(f, c->model.params, ranks, true);
    LS_TRY(ls_all_reduce(c->group, &sent, &sent, 1, LS_F64, LS_REDUCE_AVG));
    b->common.wrong |= !is_near(sent, e.sent, 0, ranks);
    for (int moment = 0; moment < LSI_DDP_MOMENTS; moment++) {
        lsi_ddp_peaks peaks;
        e = expect(f, c->model.params, ranks, moment != LSI_DDP_INIT);
        LS_TRY(mean_peaks(c, moment, &peaks));
        b->common.wrong |= !as_expected(&peaks, &e, ranks);
        begin_row(b, c);
        lsi_table_text(table, "moment", lsi_ddp_moment_names[moment]);
        record_memory(&peaks, &e, table);
        record_pair(table, "bytes_sent", sent, e.sent);
        lsi_table_real(table, "step_time_avg_s", mean_step(c));
    }
    return LS_OK;
}

/* ---- all rows ------------------------------------------------------------ */

static ls_status measure_case(state *b, lsi_ddp_case *c, const formula *f)
{
    LS_TRY(lsi_ddp_case_run(c));
    if (c->fits)
        return record(b, c, f);
    begin_row(b, c);
    lsi_ddp_case_note_reason(c, &b->common);
    return LS_OK;
}

static ls_status parse(void *opaque)
{
    state *const b = opaque;
    LS_TRY(lsi_ddp_model_parse(&b->model, &b->spec));
    b->spec.batch = b->batch;
    b->spec.context = b->context;
    return LS_OK;
}

static ls_status open_cases(void *opaque)
{
    state *const b = opaque;
    b->common.cases = sizeof(formulas) / sizeof(formulas[0]);
    if (ls_group_local_size(b->common.group) < ls_group_size(b->common.group))
        return lsi_fail(
            LS_ERR_UNSUPPORTED,
            "bench zero needs all ranks on one node, because its formulas are "
            "valid only for one node; these ranks run on several nodes");
    return LS_OK;
}

static ls_status measure(void *opaque, size_t i)
{
    state *const b = opaque;
    lsi_ddp_case c = {.group = b->common.group,
                      .spec = &b->spec,
                      .strategy = formulas[i].strategy,
                      .bucket_mb =
                          formulas[i].gradients ? LEAST_BUCKET_MB : INFINITY,
                      .warmup = b->common.warmup,
                      .steps = b->common.iterations,
                      .budget = b->budget};
    const ls_status status = measure_case(b, &c, &formulas[i]);
    lsi_ddp_case_release(&c);
    return status;
}

const lsi_bench lsi_bench_zero = {
    .command =
        {.name = "zero",
         .summary = "Compare ways to shard the optimizer state",
         .text =
             "Compares AdamW with replicated optimizer state (flat) and with "
             "sharded state (owners, zero1, shared and fsdp). Strategy fsdp "
             "uses one bucket per parameter. Strategies shared and fsdp keep "
             "one copy of the weights per node. Memory is the peak by kind "
             "at " LSI_DDP_MOMENTS_HELP
             " Bytes sent are counted for one step. Memory and bytes sent are "
             "means over ranks. With --wide, the "
             "column after each number contains the value of the formula in "
             "docs/concepts/parallel.md; for the gradients of fsdp, it is an "
             "upper bound. If a number differs from its formula by more than "
             "5%, the exit status is 1. " LSI_DDP_DEMAND_HELP,
         LSI_COMMAND_OPTIONS(options),
         .run = lsi_bench_run},
    LSI_BENCH_TABLES(state, columns),
    .ranks = "2",
    .parse = parse,
    .open = open_cases,
    .measure = measure,
};
