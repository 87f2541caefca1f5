/*
 * Times attention over lists of sizes: one case a row. A few rows of every case
 * are checked. A case that does not fit in memory has a row that says so.
 */
#include "cli/bench/attention_sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/compute/threads.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/bench/attention_case.h"
#include "cli/frame/dtype_flag.h"
#include "cli/frame/list.h"

enum { QUICK_LENGTH = 2048, FEWEST_RUNS = 3 };

#define MS(column, name_, unit_)                                               \
    LSI_COLUMN(REAL, column ".median", name_, .unit = (unit_), .decimals = 3,  \
               .width = 9),                                                    \
        LSI_COLUMN(REAL, column ".mean", ""),                                  \
        LSI_COLUMN(REAL, column ".std", "std", .decimals = 3, .wide = true,    \
                   .width = 7)

const lsi_column lsi_attention_columns[LSI_ATTENTION_COLUMNS] = {
    LSI_COLUMN(TEXT, "impl", "Method", .width = 8),
    LSI_COLUMN(TEXT, "dtype", "Type"),
    LSI_COLUMN(INT, "batch", "Batch", .wide = true),
    LSI_COLUMN(INT, "length", "Length"),
    LSI_COLUMN(INT, "d", "d"),
    LSI_COLUMN(BOOL, "causal", "Causal", .wide = true),
    LSI_COLUMN(INT, "threads", "Threads", .wide = true),
    LSI_COLUMN(INT, "iterations", ""),
    MS("forward_ms", "Forward", "ms"),
    MS("backward_ms", "Backward", NULL),
    LSI_COLUMN(REAL, "total_ms", "Total", .decimals = 3, .wide = true,
               .width = 9),
    LSI_COLUMN(REAL, "gflops_forward", "Forward", .unit = "GFLOP/s",
               .decimals = 1, .wide = true),
    LSI_COLUMN(REAL, "gflops_backward", "Backward", .unit = "GFLOP/s",
               .decimals = 1, .wide = true),
    LSI_COLUMN(INT, "saved_bytes", "Saved bytes", .wide = true),
    LSI_COLUMN(INT, "live_bytes", "Bytes before backward", .wide = true),
    LSI_COLUMN(INT, "peak_bytes", "Peak bytes", .width = 11),
    LSI_COLUMN(TEXT, "status", "Status", .width = 13),
};

/* ---- the sizes -------------------------------------------------------------
 */

static ls_status parse_method(const char *word, ls_attention_method *out)
{
    for (int m = 0; m < LS_ATTENTION_METHOD_COUNT; m++) {
        if (strcmp(word, ls_attention_method_name((ls_attention_method)m)) ==
            0) {
            *out = (ls_attention_method)m;
            return LS_OK;
        }
    }
    return lsi_fail(LS_ERR_ARGUMENT,
                    "unknown --impl '%s'; choose one of: flash, naive", word);
}

static ls_status read_method(void *opaque, const char *word)
{
    lsi_bench_attention_rows *const s = opaque;
    if (s->n_methods == LSI_ATTENTION_MAX_METHODS)
        return lsi_fail(LS_ERR_ARGUMENT, "--impl lists more than %d names",
                        LSI_ATTENTION_MAX_METHODS);
    return parse_method(word, &s->method_list[s->n_methods++]);
}

static void drop_long(lsi_list *lengths)
{
    size_t n = 0;
    for (size_t i = 0; i < lengths->n; i++) {
        if (lengths->values[i] <= QUICK_LENGTH)
            lengths->values[n++] = lengths->values[i];
    }
    lengths->n = n;
}

ls_status lsi_bench_attention_parse(void *opaque)
{
    lsi_bench_attention_rows *const s = opaque;
    LS_TRY(lsi_list_of_numbers("--batch-size", s->batches, 1, 1 << 20,
                               &s->batch_list));
    LS_TRY(
        lsi_list_of_sizes("--length", s->lengths, 1, 1 << 24, &s->length_list));
    LS_TRY(
        lsi_list_of_numbers("--head-size", s->sizes, 1, 4096, &s->size_list));
    LS_TRY(lsi_cli_dtypes(s->dtypes, &s->types));
    LS_TRY(lsi_each_word("--impl", s->methods, read_method, s));
    if (s->quick)
        drop_long(&s->length_list);
    if (s->length_list.n == 0)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "--quick measures lengths up to %d only, and every --length is "
            "larger; remove --quick or give a smaller --length",
            QUICK_LENGTH);
    return LS_OK;
}

/* ---- one case ----------------------------------------------------------- */

/* Measured times of a case, in seconds. */
typedef struct timing {
    double *forward, *backward; /* [iterations] */
    int64_t n;
} timing;

/* Most seconds of the measured runs of a case; 0: no limit. */
static double seconds_of(const lsi_bench_attention_rows *a)
{
    const double quick = 0.5;
    return a->quick && (a->seconds == 0 || a->seconds > quick) ? quick
                                                               : a->seconds;
}

static ls_status time_runs(lsi_attention_case *c,
                           const lsi_bench_attention_rows *a, timing *t)
{
    double begin = 0;
    const double limit = seconds_of(a);
    const double warm = lsi_clock_seconds();
    for (int64_t i = 0; i < a->common.warmup; i++) {
        LS_TRY(lsi_attention_case_forward(c));
        LS_TRY(lsi_attention_case_backward(c));
        if (limit > 0 && lsi_clock_seconds() - warm > limit)
            break;
    }
    begin = lsi_clock_seconds();
    for (t->n = 0; t->n < a->common.iterations; t->n++) {
        const double start = lsi_clock_seconds();
        if (limit > 0 && t->n >= FEWEST_RUNS && start - begin > limit)
            break;
        LS_TRY(lsi_attention_case_forward(c));
        const double middle = lsi_clock_seconds();
        LS_TRY(lsi_attention_case_backward(c));
        t->forward[t->n] = middle - start;
        t->backward[t->n] = lsi_clock_seconds() - middle;
    }
    return LS_OK;
}

static void record_shape(const lsi_attention_case *c, lsi_table *table)
{
    const ls_attention_shape *s = &c->shape;
    size_t saved;
    lsi_table_row(table);
    lsi_table_text(table, "impl", ls_attention_method_name(c->method));
    lsi_table_text(table, "dtype", ls_dtype_name(s->dtype));
    lsi_table_int(table, "batch", s->batch);
    lsi_table_int(table, "length", s->keys);
    lsi_table_int(table, "d", s->d);
    lsi_table_bool(table, "causal", s->causal);
    lsi_table_int(table, "threads", lsi_threads());
    if (ls_attention_saved_bytes(s, c->method, &saved) == LS_OK)
        lsi_table_int(table, "saved_bytes", (int64_t)saved);
}

static ls_status record_times(const lsi_attention_case *c, const timing *t,
                              lsi_table *table)
{
    const ls_attention_shape *s = &c->shape;
    lsi_stats forward, backward;
    ls_memory_stats memory;
    LS_TRY(lsi_stats_of(t->forward, (size_t)t->n, &forward));
    LS_TRY(lsi_stats_of(t->backward, (size_t)t->n, &backward));
    ls_memory_total(&memory);
    const double pairs = (double)s->batch * (double)s->queries *
                         (double)s->keys * (s->causal ? 0.5 : 1.0);
    const double flops = 4 * pairs * (double)s->d;
    record_shape(c, table);
    lsi_table_int(table, "iterations", t->n);
    lsi_table_stats(table, "forward_ms", &forward, 1e3);
    lsi_table_stats(table, "backward_ms", &backward, 1e3);
    lsi_table_real(table, "total_ms", (forward.median + backward.median) * 1e3);
    lsi_table_real(table, "gflops_forward", flops / forward.median * 1e-9);
    lsi_table_real(table, "gflops_backward",
                   2.5 * flops / backward.median * 1e-9);
    lsi_table_int(table, "live_bytes", (int64_t)c->live_bytes);
    lsi_table_int(table, "peak_bytes",
                  (int64_t)(memory.peak_bytes - c->input_bytes));
    lsi_table_text(table, "status", "ok");
    return LS_OK;
}

static ls_status measure_made(lsi_attention_case *c,
                              lsi_bench_attention_rows *a)
{
    const size_t n = (size_t)a->common.iterations;
    timing t = {.n = 0};
    t.forward = malloc(2 * n * sizeof(double));
    if (t.forward == NULL)
        return lsi_bench_no_times(2 * n);
    t.backward = t.forward + n;
    ls_status status = time_runs(c, a, &t);
    if (status == LS_OK)
        status = record_times(c, &t, a->common.table);
    if (status == LS_OK && !lsi_attention_case_is_right(c))
        a->common.wrong = true;
    free(t.forward);
    return status;
}

static ls_status measure_case(lsi_attention_case c, lsi_bench_attention_rows *a)
{
    lsi_table *const table = a->common.table;
    ls_status status = lsi_attention_case_new(&c);
    if (status == LS_OK)
        status = measure_made(&c, a);
    lsi_attention_case_free(&c);
    if (status != LS_ERR_BUDGET && status != LS_ERR_MEMORY)
        return status;
    record_shape(&c, table);
    lsi_table_int(table, "peak_bytes", (int64_t)c.needed_bytes);
    lsi_table_text(table, "status", "out of memory");
    return LS_OK;
}

/* ---- the sweep ---------------------------------------------------------- */

/* Number `i` of all cases: methods vary fastest, then d, then length. */
static lsi_attention_case case_at(const lsi_bench_attention_rows *s, size_t i)
{
    const size_t methods = (size_t)s->n_methods, types = (size_t)s->types.n;
    lsi_attention_case c = {.method = s->method_list[i % methods]};
    i /= methods;
    c.shape.heads = 1;
    c.shape.d = s->size_list.values[i % s->size_list.n];
    i /= s->size_list.n;
    c.shape.queries = s->length_list.values[i % s->length_list.n];
    c.shape.keys = c.shape.queries;
    i /= s->length_list.n;
    c.shape.batch = s->batch_list.values[i % s->batch_list.n];
    i /= s->batch_list.n;
    c.shape.dtype = s->types.values[i % types];
    c.shape.causal =
        s->causal[0] == 'y' || (s->causal[0] == 'b' && i / types == 1);
    return c;
}

ls_status lsi_bench_attention_open(void *opaque)
{
    lsi_bench_attention_rows *const s = opaque;
    lsi_bench_set_budget(s->budget);
    s->common.cases = (size_t)s->n_methods * s->size_list.n * s->length_list.n *
                      s->batch_list.n * (size_t)s->types.n *
                      (s->causal[0] == 'b' ? 2 : 1);
    return LS_OK;
}

void lsi_bench_attention_describe(const void *opaque, size_t i, char *note,
                                  size_t bytes)
{
    const lsi_attention_case c = case_at(opaque, i);
    snprintf(note, bytes, "%s %s, length %lld, d %lld",
             ls_attention_method_name(c.method), ls_dtype_name(c.shape.dtype),
             (long long)c.shape.keys, (long long)c.shape.d);
}

ls_status lsi_bench_attention_measure(void *opaque, size_t i)
{
    return measure_case(case_at(opaque, i), opaque);
}
