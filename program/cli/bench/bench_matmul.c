/*
 * lockstep bench matmul: the three f32 matrix products of a linear layer in
 * training, with fast and with portable bits in turn. Some elements of every
 * result are compared with a sum in float64.
 */
#include <math.h>
#include <string.h>

#include "array/compute/dense.h"
#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "base/bits.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/rng.h"
#include "cli/bench/bench.h"
#include "cli/frame/list.h"

enum { PASSES = 3, KINDS = 2, CHECKED = 97 };

typedef struct state {
    lsi_bench_common common;
    const char *rows, *ins, *outs, *bits;
    lsi_list row_list, in_list, out_list;
    ls_bits kinds[KINDS];
    int n_kinds;
    double *times; /* of each of the kinds, one after another */
} state;

#define ROW(...) LSI_OPTION(state, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_BENCH_ROWS("1", "3", "30"),
    ROW(rows, LIST, "rows", 0, "N,...", "512",
        "rows of the input: tokens or samples of a batch"),
    ROW(ins, LIST, "in-features", 0, "N,...", "768",
        "input features of the layer"),
    ROW(outs, LIST, "out-features", 0, "N,...", "3072",
        "output features of the layer"),
    ROW(bits, LIST, "bits", 0, "KIND,...", "fast,portable",
        "bits of the results: fast, portable"),
};

static const lsi_column columns[] = {
    LSI_COLUMN(TEXT, "pass", "Pass", .width = 15),
    LSI_COLUMN(INT, "rows", "Rows"),
    LSI_COLUMN(INT, "in", "In", .width = 5),
    LSI_COLUMN(INT, "out", "Out", .width = 5),
    LSI_COLUMN(INT, "threads", "Threads", .wide = true),
    LSI_COLUMN(TEXT, "level", "Level", .wide = true, .width = 11),
    LSI_COLUMN(TEXT, "bits", "Bits", .width = 8),
    LSI_COLUMN(REAL, "time_ms.min", "Shortest", .unit = "ms", .decimals = 3),
    LSI_COLUMN(REAL, "time_ms.median", "Median", .decimals = 3),
    LSI_COLUMN(REAL, "time_ms.mean", ""),
    LSI_COLUMN(REAL, "time_ms.p99", ""),
    LSI_COLUMN(REAL, "gflops", "GFLOP/s", .decimals = 1),
};

/* One product, and its arrays. */
typedef struct product {
    const char *pass;
    int64_t rows, in, out;
    lsi_gemm_shape shape;
    float *a, *b, *c;
} product;

/* Y = X W^T, dX = dY W or dW = dY^T X: W is (out, in). */
static product product_at(const state *s, size_t i)
{
    static const char *const passes[PASSES] = {"forward", "input gradient",
                                               "weight gradient"};
    const size_t pass = i % PASSES;
    i /= PASSES;
    product p = {.pass = passes[pass],
                 .out = s->out_list.values[i % s->out_list.n]};
    i /= s->out_list.n;
    p.in = s->in_list.values[i % s->in_list.n];
    p.rows = s->row_list.values[i / s->in_list.n];
    p.shape = (lsi_gemm_shape){.m = pass == 2 ? p.out : p.rows,
                               .n = pass == 0 ? p.out : p.in,
                               .k = pass == 0   ? p.in
                                    : pass == 1 ? p.out
                                                : p.rows,
                               .a_transposed = pass == 2,
                               .b_transposed = pass == 0,
                               .ab_dtype = LS_F32,
                               .c_dtype = LS_F32};
    p.shape.lda = p.shape.a_transposed ? p.shape.m : p.shape.k;
    p.shape.ldb = p.shape.b_transposed ? p.shape.k : p.shape.n;
    p.shape.ldc = p.shape.n;
    return p;
}

static ls_status make_matrix(float **out, int64_t rows, int64_t cols,
                             uint64_t stream)
{
    const size_t n = (size_t)rows * (size_t)cols;
    const lsi_rng_key key = {0, stream};
    void *memory = NULL;
    LS_TRY(lsi_alloc(&memory, n * sizeof(float), LS_MEMORY_OTHER,
                     "matrix of a product"));
    *out = memory;
    for (size_t i = 0; i < n; i++)
        (*out)[i] = 2 * lsi_rng_unit_f32(lsi_rng_u32(key, 0, i)) - 1;
    return LS_OK;
}

/* The error of a sum of k products in f32, in any order. */
static bool element_is_right(const product *p, int64_t at)
{
    const lsi_gemm_shape *const g = &p->shape;
    const int64_t row = at / g->n, col = at % g->n;
    double sum = 0, size = 0;
    for (int64_t k = 0; k < g->k; k++) {
        const double x =
            p->a[g->a_transposed ? k * g->lda + row : row * g->lda + k];
        const double y =
            p->b[g->b_transposed ? col * g->ldb + k : k * g->ldb + col];
        sum += x * y;
        size += fabs(x * y);
    }
    /* A NaN is larger than any bound. */
    return fabs(p->c[at] - sum) <= (double)(g->k + 2) * 0x1p-24 * size;
}

static bool is_right(const product *p)
{
    const int64_t n = p->shape.m * p->shape.n;
    for (int64_t i = 0; i < CHECKED; i++)
        if (!element_is_right(p, (int64_t)((double)i / CHECKED * (double)n)))
            return false;
    return element_is_right(p, n - 1);
}

static void add_row(state *s, const product *p, ls_bits bits,
                    const lsi_stats *stats)
{
    const lsi_gemm_shape *const g = &p->shape;
    lsi_table *const table = s->common.table;
    lsi_table_row(table);
    lsi_table_text(table, "pass", p->pass);
    lsi_table_int(table, "rows", p->rows);
    lsi_table_int(table, "in", p->in);
    lsi_table_int(table, "out", p->out);
    lsi_table_int(table, "threads", lsi_threads());
    lsi_table_text(table, "level", lsi_isa_name(lsi_kernels_get()->isa));
    lsi_table_text(table, "bits", lsi_bits_name(bits));
    lsi_table_stats(table, "time_ms", stats, 1e3);
    lsi_table_real(table, "gflops",
                   2e-9 * (double)g->m * (double)g->n * (double)g->k /
                       stats->min);
}

/* Both kinds in turn, so that a slow moment of the machine meets both. */
static ls_status time_runs(state *s, const product *p)
{
    const int64_t warmup = s->common.warmup, n = s->common.iterations;
    for (int64_t i = -warmup; i < n; i++)
        for (int kind = 0; kind < s->n_kinds; kind++) {
            LS_TRY(ls_set_bits(s->kinds[kind]));
            const uint64_t start = lsi_clock_ns();
            LS_TRY(lsi_gemm_run(&p->shape, p->c, p->a, p->b, NULL));
            if (i >= 0)
                s->times[kind * n + i] =
                    (double)(lsi_clock_ns() - start) * 1e-9;
            if ((i == -warmup || i == n - 1) && !is_right(p))
                s->common.wrong = true;
        }
    return LS_OK;
}

static ls_status measure_product(state *s, product *p)
{
    const lsi_gemm_shape *const g = &p->shape;
    LS_TRY(make_matrix(&p->a, g->m, g->k, 1));
    LS_TRY(make_matrix(&p->b, g->k, g->n, 2));
    LS_TRY(make_matrix(&p->c, g->m, g->n, 3));
    LS_TRY(time_runs(s, p));
    for (int kind = 0; kind < s->n_kinds; kind++) {
        const size_t n = (size_t)s->common.iterations;
        lsi_stats stats;
        LS_TRY(lsi_stats_of(s->times + (size_t)kind * n, n, &stats));
        add_row(s, p, s->kinds[kind], &stats);
    }
    return LS_OK;
}

static ls_status measure(void *opaque, size_t i)
{
    product p = product_at(opaque, i);
    const ls_status status = measure_product(opaque, &p);
    lsi_free(p.a);
    lsi_free(p.b);
    lsi_free(p.c);
    return status;
}

static ls_status add_kind(void *opaque, const char *word)
{
    state *const s = opaque;
    if (s->n_kinds == KINDS)
        return lsi_fail(LS_ERR_ARGUMENT, "--bits lists more than %d names",
                        KINDS);
    if (lsi_bits_parse(word, &s->kinds[s->n_kinds++]) != LS_OK)
        return lsi_fail(LS_ERR_ARGUMENT, "--bits: %s", ls_last_error());
    return LS_OK;
}

static ls_status parse(void *opaque)
{
    state *const s = opaque;
    const int64_t most = 1 << 20;
    LS_TRY(lsi_list_of_sizes("--rows", s->rows, 1, most, &s->row_list));
    LS_TRY(lsi_list_of_sizes("--in-features", s->ins, 1, most, &s->in_list));
    LS_TRY(lsi_list_of_sizes("--out-features", s->outs, 1, most, &s->out_list));
    return lsi_each_word("--bits", s->bits, add_kind, s);
}

static ls_status open_matmul(void *opaque)
{
    state *const s = opaque;
    s->common.cases = PASSES * s->row_list.n * s->in_list.n * s->out_list.n;
    void *times;
    LS_TRY(lsi_alloc(
        &times, (size_t)(s->n_kinds * s->common.iterations) * sizeof(double),
        LS_MEMORY_OTHER, "times"));
    s->times = times;
    return LS_OK;
}

static void close_matmul(void *opaque)
{
    state *const s = opaque;
    lsi_free(s->times);
}

static void describe(const void *opaque, size_t i, char *note, size_t bytes)
{
    const product p = product_at(opaque, i);
    snprintf(note, bytes, "%s, %lld x %lld x %lld", p.pass, (long long)p.rows,
             (long long)p.in, (long long)p.out);
}

const lsi_bench lsi_bench_matmul = {
    .command =
        {.name = "matmul",
         .summary = "Time f32 matrix products with fast and portable bits",
         .text =
             "The three products are those of a linear layer in training: its "
             "output, the gradient of its input and the gradient of its "
             "weights. A product with fast bits and the one with portable bits "
             "run in turn. Column GFLOP/s is that of the shortest run. Some "
             "elements of each result are compared with a sum in double "
             "precision; if they differ by more than the bound for rounding "
             "errors, the exit status is 1.",
         LSI_COMMAND_OPTIONS(options),
         .run = lsi_bench_run},
    LSI_BENCH_TABLES(state, columns),
    .ranks = "1",
    .progress = "cases",
    .parse = parse,
    .open = open_matmul,
    .measure = measure,
    .close = close_matmul,
    .describe = describe,
};
