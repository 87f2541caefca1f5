/*
 * Times attention over lists of sizes: one case a row. Every case is checked
 * on a few rows, and one that does not fit in memory says so.
 */
#include "bench/attention_sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "bench/attention_case.h"
#include "command/dtype_flag.h"
#include "command/list.h"
#include "report/progress.h"

enum { QUICK_LENGTH = 2048, MAX_WORDS = 8, FEWEST_RUNS = 3 };

#define MS(column, name_)                                                      \
    {.name = column ".median",                                                 \
     .title = name_,                                                           \
     .unit = "ms",                                                             \
     .type = LSI_COLUMN_REAL,                                                  \
     .decimals = 3},                                                           \
        {.name = column ".mean", .title = "", .type = LSI_COLUMN_REAL},        \
    {                                                                          \
        .name = column ".std", .title = "std", .unit = "ms",                   \
        .type = LSI_COLUMN_REAL, .decimals = 3                                 \
    }

static const lsi_column columns[] = {
    {.name = "impl", .title = "Method"},
    {.name = "dtype", .title = "Type"},
    {.name = "batch", .title = "Batch", .type = LSI_COLUMN_INT},
    {.name = "length", .title = "Length", .type = LSI_COLUMN_INT},
    {.name = "d", .title = "d", .type = LSI_COLUMN_INT},
    {.name = "causal", .title = "Causal", .type = LSI_COLUMN_BOOL},
    {.name = "threads", .title = "Threads", .type = LSI_COLUMN_INT},
    {.name = "iterations", .title = "", .type = LSI_COLUMN_INT},
    MS("forward_ms", "Forward"),
    MS("backward_ms", "Backward"),
    {.name = "total_ms",
     .title = "Total",
     .unit = "ms",
     .type = LSI_COLUMN_REAL,
     .decimals = 3},
    {.name = "gflops_forward",
     .title = "Forward",
     .unit = "GFLOP/s",
     .type = LSI_COLUMN_REAL,
     .decimals = 1},
    {.name = "gflops_backward",
     .title = "Backward",
     .unit = "GFLOP/s",
     .type = LSI_COLUMN_REAL,
     .decimals = 1},
    {.name = "saved_bytes", .title = "Saved bytes", .type = LSI_COLUMN_INT},
    {.name = "live_bytes",
     .title = "In use before backward",
     .type = LSI_COLUMN_INT},
    {.name = "peak_bytes", .title = "Peak bytes", .type = LSI_COLUMN_INT},
    {.name = "status", .title = "Status"},
};

/* ---- the sizes -------------------------------------------------------------
 */

typedef struct plan {
    const lsi_attention_args *args;
    lsi_list batches, lengths, sizes;
    lsi_dtype_list dtypes;
    ls_attention_method methods[MAX_WORDS];
    int n_methods;
} plan;

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
                    "--impl has \"%s\"; there are flash, naive", word);
}

static ls_status read_method(void *opaque, const char *word)
{
    plan *p = opaque;
    if (p->n_methods == MAX_WORDS)
        return lsi_fail(LS_ERR_ARGUMENT, "--impl has more than %d words",
                        MAX_WORDS);
    return parse_method(word, &p->methods[p->n_methods++]);
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

static ls_status parse(const lsi_attention_args *a, plan *p)
{
    *p = (plan){.args = a};
    LS_TRY(lsi_list_of_numbers("--batch", a->batches, 1, 1 << 20, &p->batches));
    LS_TRY(lsi_list_of_sizes("--length", a->lengths, 1, 1 << 24, &p->lengths));
    LS_TRY(lsi_list_of_numbers("--d", a->sizes, 1, 4096, &p->sizes));
    LS_TRY(lsi_cli_dtypes(a->dtypes, &p->dtypes));
    LS_TRY(lsi_each_word("--impl", a->methods, read_method, p));
    if (a->quick)
        drop_long(&p->lengths);
    if (p->lengths.n == 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--quick leaves no --length: all are above %d",
                        QUICK_LENGTH);
    return LS_OK;
}

/* ---- one case ----------------------------------------------------------- */

/* What a case measured; the times in seconds. */
typedef struct timing {
    double *forward, *backward; /* [iterations] */
    int64_t n;
} timing;

/* How long the measured runs of a case may go on; 0: for ever. */
static double seconds_of(const lsi_attention_args *a)
{
    const double quick = 0.5;
    return a->quick && (a->seconds == 0 || a->seconds > quick) ? quick
                                                               : a->seconds;
}

static ls_status time_runs(lsi_attention_case *c, const lsi_attention_args *a,
                           timing *t)
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
                              const lsi_attention_args *a, lsi_table *table,
                              bool *wrong)
{
    const size_t n = (size_t)a->common.iterations;
    timing t = {.n = 0};
    t.forward = malloc(2 * n * sizeof(double));
    if (t.forward == NULL)
        return lsi_fail(LS_ERR_MEMORY, "no memory for %zu times", 2 * n);
    t.backward = t.forward + n;
    ls_status status = time_runs(c, a, &t);
    if (status == LS_OK)
        status = record_times(c, &t, table);
    if (status == LS_OK && !lsi_attention_case_is_right(c))
        *wrong = true;
    free(t.forward);
    return status;
}

static ls_status measure_case(lsi_attention_case c, const lsi_attention_args *a,
                              lsi_table *table, bool *wrong)
{
    ls_status status = lsi_attention_case_new(&c);
    if (status == LS_OK)
        status = measure_made(&c, a, table, wrong);
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
static lsi_attention_case case_at(const plan *p, size_t i)
{
    const size_t methods = (size_t)p->n_methods, types = (size_t)p->dtypes.n;
    lsi_attention_case c = {.method = p->methods[i % methods]};
    i /= methods;
    c.shape.heads = 1;
    c.shape.d = p->sizes.values[i % p->sizes.n];
    i /= p->sizes.n;
    c.shape.queries = p->lengths.values[i % p->lengths.n];
    c.shape.keys = c.shape.queries;
    i /= p->lengths.n;
    c.shape.batch = p->batches.values[i % p->batches.n];
    i /= p->batches.n;
    c.shape.dtype = p->dtypes.values[i % types];
    c.shape.causal = p->args->causal[0] == 'y' ||
                     (p->args->causal[0] == 'b' && i / types == 1);
    return c;
}

static size_t case_count(const plan *p)
{
    return (size_t)p->n_methods * p->sizes.n * p->lengths.n * p->batches.n *
           (size_t)p->dtypes.n * (p->args->causal[0] == 'b' ? 2 : 1);
}

static ls_status measure(const void *opaque, ls_group *group, lsi_table *table,
                         bool *wrong)
{
    const lsi_attention_args *a = opaque;
    plan p;
    LS_TRY(parse(a, &p));
    lsi_bench_set_budget(a->budget);
    const size_t n = case_count(&p);
    lsi_progress_bar progress;
    lsi_progress_begin(&progress, stderr, "cases", (int64_t)n);
    ls_status status = LS_OK;
    for (size_t i = 0; i < n && status == LS_OK; i++) {
        const lsi_attention_case c = case_at(&p, i);
        char note[64];
        snprintf(note, sizeof(note), "%s %s, length %lld, d %lld",
                 ls_attention_method_name(c.method),
                 ls_dtype_name(c.shape.dtype), (long long)c.shape.keys,
                 (long long)c.shape.d);
        lsi_progress_update(&progress, (int64_t)i, note);
        status = measure_case(c, a, table, wrong);
        if (status == LS_OK)
            status = lsi_bench_keep(group, table);
    }
    lsi_progress_end(&progress);
    return status;
}

static ls_status check_flags(const void *opaque)
{
    plan p;
    return parse(opaque, &p);
}

static const lsi_bench bench = {
    .columns = columns,
    .n_columns = sizeof(columns) / sizeof(columns[0]),
    .ranks = "1",
    .check = check_flags,
    .measure = measure,
};

int lsi_bench_attention_rows(const lsi_invocation *call,
                             const lsi_attention_args *args)
{
    return lsi_bench_run(call, &args->common, &bench, args);
}
