/*
 * lockstep bench sync-batch-norm: forward, a sum and backward of both
 * implementations, for each number of features and rows, or images. The result
 * of each case is compared with sums in double over the rows of all ranks. The
 * memory of each implementation is counted in a separate pass, which is
 * recorded and not timed.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/rng.h"
#include "cli/bench/bench.h"
#include "cli/frame/list.h"
#include "comm/core/agree.h"
#include "lockstep/parallel.h"
#include "observe/memory_record.h"

static const double tolerance = 1e-3;

typedef struct state {
    lsi_bench_common common;
    const char *features, *batches, *impl;
    int64_t side;
    lsi_list feature_list, batch_list;
    ls_sync_bn_kind kinds[2];
    size_t n_kinds;
} state;

#define ROW(...) LSI_OPTION(state, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_BENCH_ROWS("2", "5", "1000"),
    ROW(features, LIST, "features", 0, "N,...", "128,256,512,1024",
        "numbers of features (columns of the input)"),
    ROW(batches, LIST, "batch-size", 'b', "N,...", "32,64",
        "rows of the input per rank"),
    ROW(side, INT, "side", 0, "N", "0",
        "use images of N x N pixels, so that the input has the shape (batch, "
        "features, N, N); 0: no images, shape (batch, features)",
        .min = 0, .max = 1 << 12),
    ROW(impl, LIST, "impl", 0, "NAME,...", "fused,gathered",
        "implementations to measure: fused, gathered"),
};

static const lsi_column columns[] = {
    LSI_COLUMN(TEXT, "implementation", "Method", .width = 8),
    LSI_COLUMN(INT, "features", "Features"),
    LSI_COLUMN(INT, "batch", "Batch"),
    LSI_COLUMN(INT, "side", "Side", .wide = true),
    LSI_COLUMN(INT, "ranks", "Ranks"),
    LSI_COLUMN(REAL, "time_us.min", "Min", .unit = "us", .decimals = 1,
               .width = 9),
    LSI_COLUMN(REAL, "time_us.median", "Median", .unit = "us", .decimals = 1,
               .width = 9),
    LSI_COLUMN(REAL, "time_us.mean", "Mean", .unit = "us", .decimals = 1,
               .wide = true, .width = 9),
    LSI_COLUMN(REAL, "time_us.p99", "p99", .unit = "us", .decimals = 1,
               .wide = true, .width = 9),
    LSI_COLUMN(REAL, "time_us.max", "Max", .unit = "us", .decimals = 1,
               .width = 9),
    LSI_COLUMN(INT, "layer_bytes", "Layer bytes", .wide = true),
    LSI_COLUMN(INT, "saved_bytes", "Saved bytes", .wide = true),
    LSI_COLUMN(INT, "peak_bytes", "Peak bytes"),
};

/*
 * Bytes on the rank that holds most. LAYER_BYTES: held by the layer between two
 * passes. The others are of one pass, without the layer and its input: in use
 * between forward and backward, and the most at any time.
 */
enum { LAYER_BYTES, SAVED_BYTES, PEAK_BYTES, N_BYTES };

/* One row of the table, and the data that it is measured with. */
typedef struct bench_case {
    lsi_bench_common *common;
    ls_group *group;
    ls_sync_bn_kind kind;
    int64_t features, batch, side;
    int64_t bytes[N_BYTES];
    ls_params *params;
    ls_sync_bn *bn;
    ls_tape *tape;
    ls_tensor *x;
} bench_case;

/* Pixels per row: those of an image, or 1 without images. */
static int64_t pixels_of(const bench_case *c)
{
    return c->side > 0 ? c->side * c->side : 1;
}

static ls_status make_input(bench_case *c)
{
    const int64_t shape[4] = {c->batch, c->features, c->side, c->side};
    const lsi_rng_key key = {42, (uint64_t)ls_group_rank(c->group)};
    LS_TRY(ls_tensor_new(&c->x, LS_F32, c->side > 0 ? 4 : 2, shape));
    float *x;
    LS_TRY(ls_tensor_map_f32(c->x, &x));
    for (int64_t i = 0; i < ls_tensor_count(c->x); i++)
        x[i] = (float)lsi_rng_normal(key, 0, (uint64_t)i);
    return LS_OK;
}

static ls_status make_case(bench_case *c)
{
    const ls_sync_bn_options bn = {
        .kind = c->kind, .no_affine = true, .momentum = 0.1};
    ls_memory_stats before, after;
    ls_status status = make_input(c);
    if (status == LS_OK)
        status = ls_params_new(&c->params);
    LS_TRY(lsi_agree_to_plan(c->group, status));
    ls_memory_total(&before);
    LS_TRY(ls_sync_bn_new(&c->bn, c->group, c->params, "bn", c->features, &bn));
    ls_memory_total(&after);
    c->bytes[LAYER_BYTES] = (int64_t)(after.live_bytes - before.live_bytes);
    LS_TRY(ls_params_allocate(c->params, c->group, 0));
    return lsi_agree_to_plan(c->group, ls_tape_new(&c->tape));
}

static void release(bench_case *c)
{
    ls_tape_free(&c->tape);
    ls_sync_bn_free(&c->bn);
    ls_params_free(&c->params);
    ls_tensor_free(&c->x);
}

/* Forward, and the sum of the first half of the rows; NULL: it has failed. */
static ls_tensor *forward(const bench_case *c)
{
    ls_tape *const tape = c->tape;
    if (ls_tape_watch(tape, c->x) != LS_OK)
        return NULL;
    ls_tensor *const y = ls_sync_bn_forward(c->bn, tape, c->x, NULL);
    ls_tensor *const half = ls_narrow(tape, y, 0, 0, c->batch / 2);
    return ls_sum(tape, half);
}

static ls_status pass(const bench_case *c)
{
    ls_tensor *const sum = forward(c);
    LS_TRY(ls_tape_status(c->tape));
    return ls_backward(c->tape, sum, 1.0);
}

static ls_status time_passes(const bench_case *c, double *seconds)
{
    const int64_t warmup = c->common->warmup;
    const int64_t n = c->common->iterations;
    for (int64_t i = -warmup; i < n; i++) {
        LS_TRY(ls_barrier(c->group));
        const double begin = lsi_clock_seconds();
        LS_TRY(pass(c));
        ls_tape_reset(c->tape);
        if (i >= 0)
            seconds[i] = lsi_clock_seconds() - begin;
    }
    /* An iteration takes as long as its slowest rank. */
    return ls_all_reduce(c->group, seconds, seconds, (size_t)n, LS_F64,
                         LS_REDUCE_MAX);
}

/* ---- checking ----------------------------------------------------------- */

/* Where the r-th number of a column is: pixels are rows, too. */
static int64_t place(const bench_case *c, int64_t r, int64_t column)
{
    const int64_t pixels = pixels_of(c);
    return (r / pixels * c->features + column) * pixels + r % pixels;
}

/*
 * Computes in double the gradient of this rank's rows for one column of all
 * ranks' rows, all[((rank * batch + row) * features + column) * pixels +
 * pixel]. Returns its largest difference from dx.
 */
static double column_error(const bench_case *c, const float *all,
                           const float *dx, int64_t column)
{
    const int64_t pixels = pixels_of(c), batch = c->batch * pixels;
    const int64_t ranks = ls_group_size(c->group), half = c->batch / 2 * pixels;
    const int64_t rows = ranks * batch;
    double mean = 0, variance = 0, sum_dy_xhat = 0, worst = 0;
    for (int64_t r = 0; r < rows; r++)
        mean += (double)all[place(c, r, column)] / (double)rows;
    for (int64_t r = 0; r < rows; r++)
        variance +=
            pow((double)all[place(c, r, column)] - mean, 2) / (double)rows;
    const double inv_std = 1 / sqrt(variance + 1e-5);
    for (int64_t r = 0; r < rows; r++) {
        if (r % batch < half)
            sum_dy_xhat += ((double)all[place(c, r, column)] - mean) * inv_std;
    }
    const int64_t first = ls_group_rank(c->group) * batch;
    for (int64_t r = 0; r < batch; r++) {
        const double x = (double)all[place(c, first + r, column)];
        const double expected =
            inv_std *
            ((r < half ? 1 : 0) - (double)(ranks * half) / (double)rows -
             (x - mean) * inv_std * sum_dy_xhat / (double)rows);
        worst = fmax(worst, fabs((double)dx[place(c, r, column)] - expected));
    }
    return worst;
}

static ls_status compare(const bench_case *c, float *all, double *worst)
{
    const size_t count = (size_t)ls_tensor_count(c->x);
    float *x, *dx;
    LS_TRY(ls_tensor_map_f32(c->x, &x));
    LS_TRY(ls_all_gather(c->group, x, all, count, LS_F32));
    LS_TRY(pass(c));
    LS_TRY(ls_tensor_map_f32(ls_tape_grad(c->tape, c->x), &dx));
    *worst = 0;
    for (int64_t column = 0; column < c->features; column++)
        *worst = fmax(*worst, column_error(c, all, dx, column));
    ls_tape_reset(c->tape);
    return ls_all_reduce(c->group, worst, worst, 1, LS_F64, LS_REDUCE_MAX);
}

static ls_status check(const bench_case *c)
{
    void *all;
    double worst;
    const size_t bytes = (size_t)ls_tensor_count(c->x) * sizeof(float);
    LS_TRY(lsi_alloc(&all, bytes * (size_t)ls_group_size(c->group),
                     LS_MEMORY_OTHER, "inputs of all ranks"));
    const ls_status status = compare(c, all, &worst);
    lsi_free(all);
    LS_TRY(status);
    if (!(worst <= tolerance))
        c->common->wrong = true;
    return LS_OK;
}

/* ---- measuring ---------------------------------------------------------- */

/* Bytes of a recorded pass, without memory that tapes keep unused. */
static ls_status count_pass(bench_case *c)
{
    lsi_memory_reset_in_use();
    const int64_t before = lsi_memory_in_use().now;
    ls_tensor *const sum = forward(c);
    LS_TRY(ls_tape_status(c->tape));
    c->bytes[SAVED_BYTES] = lsi_memory_in_use().now - before;
    LS_TRY(ls_backward(c->tape, sum, 1.0));
    c->bytes[PEAK_BYTES] = lsi_memory_in_use().peak - before;
    ls_tape_reset(c->tape);
    return LS_OK;
}

/* A recording of all of the process (--record-memory) serves as well. */
static ls_status count_memory(bench_case *c)
{
    const bool recorded = lsi_memory_is_recorded();
    if (!recorded)
        LS_TRY(ls_memory_record_start(""));
    const ls_status status = count_pass(c);
    if (!recorded)
        LS_TRY(ls_memory_record_stop());
    LS_TRY(status);
    return ls_all_reduce(c->group, c->bytes, c->bytes, N_BYTES, LS_I64,
                         LS_REDUCE_MAX);
}

static ls_status record(const bench_case *c, const double *seconds)
{
    lsi_table *const table = c->common->table;
    lsi_stats stats;
    LS_TRY(lsi_stats_of(seconds, (size_t)c->common->iterations, &stats));
    lsi_table_row(table);
    lsi_table_text(table, "implementation",
                   c->kind == LS_SYNC_BN_FUSED ? "fused" : "gathered");
    lsi_table_int(table, "features", c->features);
    lsi_table_int(table, "batch", c->batch);
    lsi_table_int(table, "side", c->side);
    lsi_table_int(table, "ranks", ls_group_size(c->group));
    lsi_table_stats(table, "time_us", &stats, 1e6);
    lsi_table_int(table, "layer_bytes", c->bytes[LAYER_BYTES]);
    lsi_table_int(table, "saved_bytes", c->bytes[SAVED_BYTES]);
    lsi_table_int(table, "peak_bytes", c->bytes[PEAK_BYTES]);
    return LS_OK;
}

static ls_status measure_made(bench_case *c, double *seconds)
{
    LS_TRY(make_case(c));
    LS_TRY(time_passes(c, seconds));
    LS_TRY(count_memory(c));
    LS_TRY(record(c, seconds));
    return check(c);
}

static ls_status measure_case(bench_case c)
{
    void *seconds;
    LS_TRY(lsi_alloc(&seconds, (size_t)c.common->iterations * sizeof(double),
                     LS_MEMORY_OTHER, "times"));
    const ls_status status = measure_made(&c, seconds);
    release(&c);
    lsi_free(seconds);
    return status;
}

static ls_status add_kind(void *context, const char *word)
{
    state *const b = context;
    const bool fused = strcmp(word, "fused") == 0;
    if (!fused && strcmp(word, "gathered") != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "unknown --impl '%s'; choose one of: fused, gathered",
                        word);
    if (b->n_kinds == sizeof(b->kinds) / sizeof(b->kinds[0]))
        return lsi_fail(LS_ERR_ARGUMENT, "--impl lists more than %zu names",
                        b->n_kinds);
    b->kinds[b->n_kinds++] = fused ? LS_SYNC_BN_FUSED : LS_SYNC_BN_GATHERED;
    return LS_OK;
}

static ls_status parse(void *opaque)
{
    state *const b = opaque;
    LS_TRY(lsi_list_of_numbers("--features", b->features, 1, 1 << 20,
                               &b->feature_list));
    LS_TRY(lsi_list_of_numbers("--batch-size", b->batches, 1, 1 << 20,
                               &b->batch_list));
    LS_TRY(lsi_each_word("--impl", b->impl, add_kind, b));
    b->common.cases = b->n_kinds * b->feature_list.n * b->batch_list.n;
    return LS_OK;
}

/* Batches vary fastest, then features. */
static ls_status measure(void *opaque, size_t i)
{
    state *const b = opaque;
    const size_t batches = b->batch_list.n, features = b->feature_list.n;
    const bench_case c = {.common = &b->common,
                          .group = b->common.group,
                          .side = b->side,
                          .kind = b->kinds[i / batches / features],
                          .features =
                              b->feature_list.values[i / batches % features],
                          .batch = b->batch_list.values[i % batches]};
    return measure_case(c);
}

const lsi_bench lsi_bench_sync_batch_norm = {
    .command =
        {.name = "sync-batch-norm",
         .summary =
             "Time batch normalisation that is synchronised over all ranks",
         .text =
             "An iteration has three parts: forward, the loss (the sum of the "
             "first half of each rank's output rows), and backward. Ranks "
             "begin each iteration together; the time of an iteration is that "
             "of its slowest rank. After the runs, the gradients are compared "
             "with a calculation in double precision. If they differ by more "
             "than 1e-3, the exit status is 1. Peak bytes: the most memory in "
             "use at once during an iteration, without the layer and its "
             "input. With --wide, the table also contains the bytes saved for "
             "backward and the bytes of the layer.",
         LSI_COMMAND_OPTIONS(options),
         .run = lsi_bench_run},
    LSI_BENCH_TABLES(state, columns),
    .ranks = "2",
    .parse = parse,
    .measure = measure,
};
