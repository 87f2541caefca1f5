/*
 * lockstep bench lm: the steps of training language models, in one process.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/compute/threads.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/bench/bench.h"
#include "cli/bench/lm_case.h"
#include "cli/frame/dtype_flag.h"
#include "cli/frame/list.h"
#include "cli/frame/lm_flags.h"
#include "lockstep/profile.h"
#include "observe/span_file.h"
#include "observe/spans.h"

typedef struct state {
    lsi_bench_common common;
    const char *sizes, *contexts, *batches, *dtypes, *passes, *warmups;
    lsi_lm_shape_flags shape; /* of each size */
    int64_t budget;
    bool quick;
    lsi_lm_sizes size_list;
    lsi_list context_list, batch_list, warmup_list;
    lsi_dtype_list types;
    double *seconds[LSI_LM_PHASES]; /* [iterations] */
} state;

#define ROW(...) LSI_OPTION(state, __VA_ARGS__)
static const lsi_option options[] = {
    ROW(sizes, LIST, "size", 0, "NAME,...", NULL,
        LSI_LM_SIZES_HELP " (default: small)"),
    ROW(contexts, LIST, "context", 'c', "N,...", "128", "tokens per sequence"),
    ROW(batches, LIST, "batch-size", 'b', "N,...", "4", "sequences per batch"),
    LSI_LM_CHANGE_ROWS(shape),
    LSI_DTYPES_ROW(dtypes),
    ROW(passes, CHOICE, "passes", 0, "WHICH", "all",
        "passes to measure: forward, backward and the optimizer (all); forward "
        "and backward (backward); or only forward, which then saves nothing "
        "for backward (forward)",
        .choices = "all|backward|forward"),
    ROW(warmups, LIST, "warmup", 'w', "N,...", NULL,
        "number of warm-up steps before the measured steps; several numbers "
        "are measured in turn, each with a new model (default 5,0,1,2)"),
    ROW(common.iterations, INT, "iterations", 0, "N", NULL,
        "number of measured steps (default 10)", .min = 1, .max = 1e9),
    LSI_THREADS_ROW(common.threads),
    LSI_BUDGET_ROW(budget, ""),
    ROW(quick, BOOL, "quick", 0, NULL, NULL,
        "short run: the defaults become --size tiny --warmup 1,0 --iterations "
        "3"),
    LSI_BENCH_OUTPUT_ROWS,
};

#define MS(column, name_, unit_)                                               \
    LSI_COLUMN(REAL, column ".min", ""),                                       \
        LSI_COLUMN(REAL, column ".median", ""),                                \
        LSI_COLUMN(REAL, column ".mean", name_, .unit = (unit_),               \
                   .decimals = 1, .width = 6),                                 \
        LSI_COLUMN(REAL, column ".std", "std", .decimals = 1, .wide = true,    \
                   .width = 5)

static const lsi_column columns[] = {
    LSI_COLUMN(TEXT, "size", "Size", .width = 6),
    LSI_LM_SHAPE_COLUMNS,
    LSI_COLUMN(INT, "context", "Context"),
    LSI_COLUMN(INT, "batch", "Batch"),
    LSI_COLUMN(TEXT, "dtype", "Type"),
    LSI_COLUMN(TEXT, "passes", "Passes", .wide = true, .width = 8),
    LSI_COLUMN(INT, "ranks", ""),
    LSI_COLUMN(INT, "threads", "Threads", .wide = true),
    LSI_COLUMN(INT, "warmup", "Warm-up"),
    LSI_COLUMN(INT, "iterations", "Steps", .wide = true),
    MS("forward_ms", "Forward", "ms"),
    MS("backward_ms", "Backward", NULL),
    MS("optimizer_ms", "Optimizer", NULL),
    MS("step_ms", "Step", NULL),
    LSI_COLUMN(INT, "peak_bytes", "Peak bytes", .wide = true, .width = 11),
    LSI_COLUMN(TEXT, "status", "Status", .width = 13),
};

/* ---- the sizes ----------------------------------------------------------- */

static const char *or_else(const char *flag, const char *otherwise)
{
    return flag != NULL ? flag : otherwise;
}

static ls_status parse(void *opaque)
{
    state *const b = opaque;
    const char *const size = b->quick ? "tiny" : "small";
    const char *const warmups = b->quick ? "1,0" : "5,0,1,2";
    if (b->common.iterations == 0)
        b->common.iterations = b->quick ? 3 : 10;
    LS_TRY(lsi_cli_lm_sizes(or_else(b->sizes, size), &b->size_list));
    LS_TRY(lsi_cli_dtypes(b->dtypes, &b->types));
    LS_TRY(lsi_list_of_numbers("--context", b->contexts, 1, 1 << 20,
                               &b->context_list));
    LS_TRY(lsi_list_of_numbers("--batch-size", b->batches, 1, 1 << 20,
                               &b->batch_list));
    return lsi_list_of_numbers("--warmup", or_else(b->warmups, warmups), 0,
                               1 << 20, &b->warmup_list);
}

/* ---- one case ------------------------------------------------------------ */

typedef struct lm_case {
    state *bench;
    char size[LSI_LM_NAME_BYTES];
    int64_t warmup;
    lsi_lm_case lm;
} lm_case;

static ls_status warm_up(lm_case *c)
{
    double unused[LSI_LM_PHASES];
    LSI_SPAN(PHASE, "warm-up", 0, 0);
    for (int64_t i = 0; i < c->warmup; i++)
        LS_TRY(lsi_lm_case_step(&c->lm, unused));
    return LS_OK;
}

static ls_status run_steps(lm_case *c)
{
    double seconds[LSI_LM_PHASES];
    LS_TRY(warm_up(c));
    for (int64_t i = 0; i < c->bench->common.iterations; i++) {
        lsi_span_begin_step((uint64_t)i + 1);
        const uint64_t began = lsi_span_begin();
        LS_TRY(lsi_lm_case_step(&c->lm, seconds));
        lsi_span_step(began, (uint64_t)i + 1);
        for (int p = 0; p < LSI_LM_PHASES; p++)
            c->bench->seconds[p][i] = seconds[p];
    }
    return LS_OK;
}

/* ---- rows ---------------------------------------------------------------- */

static void record_case(const lm_case *c, const char *status)
{
    lsi_table *const table = c->bench->common.table;
    lsi_table_row(table);
    lsi_table_text(table, "size", c->size);
    lsi_cli_lm_record_shape(&c->lm.config, table);
    lsi_table_int(table, "context", c->lm.config.context);
    lsi_table_int(table, "batch", c->lm.batch);
    lsi_table_text(table, "dtype", ls_dtype_name(c->lm.dtype));
    lsi_table_text(table, "passes", c->bench->passes);
    lsi_table_int(table, "ranks", 1);
    lsi_table_int(table, "threads", lsi_threads());
    lsi_table_int(table, "warmup", c->warmup);
    lsi_table_text(table, "status", status);
}

static ls_status record_times(const lm_case *c)
{
    state *const b = c->bench;
    const size_t n = (size_t)b->common.iterations;
    static const char *const names[LSI_LM_PHASES] = {
        "forward_ms", "backward_ms", "optimizer_ms", "step_ms"};
    const bool ran[LSI_LM_PHASES] = {true, c->lm.backward, c->lm.optimize,
                                     true};
    lsi_stats stats[LSI_LM_PHASES];
    ls_memory_stats memory;
    ls_memory_total(&memory);
    for (int p = 0; p < LSI_LM_PHASES; p++)
        LS_TRY(lsi_stats_of(b->seconds[p], n, &stats[p]));
    record_case(c, "ok");
    lsi_table_int(b->common.table, "iterations", b->common.iterations);
    lsi_table_int(b->common.table, "peak_bytes", (int64_t)memory.peak_bytes);
    for (int p = 0; p < LSI_LM_PHASES; p++)
        if (ran[p])
            lsi_table_stats(b->common.table, names[p], &stats[p], 1e3);
    return LS_OK;
}

static ls_status measure_case(lm_case *c)
{
    ls_status status = lsi_lm_case_new(&c->lm);
    if (status == LS_OK)
        status = run_steps(c);
    if (status == LS_OK)
        status = record_times(c);
    lsi_lm_case_free(&c->lm);
    if (status != LS_ERR_BUDGET && status != LS_ERR_MEMORY)
        return status;
    record_case(c, "out of memory");
    lsi_bench_note(&c->bench->common,
                   "%s, context %" PRId64 ", batch %" PRId64 ", %s: %s\n",
                   c->size, c->lm.config.context, c->lm.batch,
                   ls_dtype_name(c->lm.dtype), ls_last_error());
    return LS_OK;
}

/* The shape of a size, with the changes of the flags. */
static ls_status choose_shape(lm_case *c, const char *size, int64_t context)
{
    lsi_lm_shape_flags flags = c->bench->shape;
    flags.size = size;
    flags.context = context;
    LS_TRY(lsi_cli_lm_shape(&flags, &c->lm.config));
    lsi_cli_lm_name(size, &c->lm.config, c->size);
    return LS_OK;
}

/* Warm-ups vary fastest, then the type, the batch, the context. */
static ls_status measure(void *opaque, size_t i)
{
    state *const b = opaque;
    lm_case c = {.bench = b,
                 .lm = {.optimize = strcmp(b->passes, "all") == 0,
                        .backward = strcmp(b->passes, "forward") != 0}};
    c.warmup = b->warmup_list.values[i % b->warmup_list.n];
    i /= b->warmup_list.n;
    c.lm.dtype = b->types.values[i % (size_t)b->types.n];
    i /= (size_t)b->types.n;
    c.lm.batch = b->batch_list.values[i % b->batch_list.n];
    i /= b->batch_list.n;
    LS_TRY(choose_shape(&c, b->size_list.names[i / b->context_list.n],
                        b->context_list.values[i % b->context_list.n]));
    return measure_case(&c);
}

static void describe(const void *opaque, size_t i, char *note, size_t bytes)
{
    const state *const b = opaque;
    const size_t one_size = b->context_list.n * b->batch_list.n *
                            (size_t)b->types.n * b->warmup_list.n;
    snprintf(note, bytes, "%s", b->size_list.names[i / one_size]);
}

/* The times do not count as memory; the measured data does. */
static ls_status open_cases(void *opaque)
{
    state *const b = opaque;
    const size_t n = (size_t)b->common.iterations;
    b->common.cases = b->size_list.n * b->context_list.n * b->batch_list.n *
                      (size_t)b->types.n * b->warmup_list.n;
    b->seconds[0] = malloc(n * LSI_LM_PHASES * sizeof(double));
    if (b->seconds[0] == NULL)
        return lsi_bench_no_times(n * LSI_LM_PHASES);
    for (int phase = 1; phase < LSI_LM_PHASES; phase++)
        b->seconds[phase] = b->seconds[0] + (size_t)phase * n;
    lsi_bench_set_budget(b->budget);
    for (int i = 0; i < b->types.n; i++)
        lsi_cli_dtype_note(b->types.values[i]);
    return LS_OK;
}

static void close_cases(void *opaque)
{
    state *const b = opaque;
    free(b->seconds[0]);
}

const lsi_bench lsi_bench_lm = {
    .command =
        {.name = "lm",
         .summary = "Time the steps of training language models",
         .text =
             "A step is forward with the loss, backward, and AdamW, on random "
             "tokens. With --passes backward or forward, the passes that are "
             "left out use no memory. If a case does not fit in the budget, "
             "its status is 'out of memory'. Peak bytes: the most memory in "
             "use at once, including the model. The process plans the matrix "
             "products of each shape once. Without warm-up, the times of each "
             "case include first accesses to memory, but only the first case "
             "of a shape includes planning. If interrupted, prints and writes "
             "the rows measured so far.",
         LSI_COMMAND_OPTIONS(options),
         .run = lsi_bench_run},
    LSI_BENCH_TABLES(state, columns),
    .ranks = "1",
    .progress = "lm",
    .parse = parse,
    .describe = describe,
    .open = open_cases,
    .measure = measure,
    .close = close_cases,
};
