/*
 * Blocks: the parts of up to ROWS rows and about DEPTH terms of A stay in the
 * second-level cache while panels of B pass by. Of a panel, PASS terms at a
 * time stay in the first while all panels of A meet them; their sums are added
 * to C once a block. The order in which an element's terms are added depends on
 * K alone, so that the bits do not depend on the number of threads.
 */
#include "array/compute/panel_gemm.h"

#include "array/compute/gemm_blocks.h"
#include "array/compute/onednn/runtime.h"
#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "base/error.h"

enum { ROWS = 512, DEPTH = 512, PASS = 64 };

typedef struct panel_run {
    const lsi_panel_ops *ops;
    const lsi_gemm_shape *g;
    float *c;
    const float *a, *b, *bias;
    size_t depth;  /* of a block: a multiple of LSI_STEP_TERMS */
    size_t rows;   /* of a block: a multiple of LSI_PANEL_LANES */
    size_t across; /* parts that the columns are divided into */
    size_t down;   /* and the rows */
    char *memory;  /* of each worker, one after another */
} panel_run;

/* One block of A, and the columns of B that it meets. */
typedef struct panel_block {
    lsi_range rows, cols, terms;
    uint32_t *a, *b;
    float *sums;
} panel_block;

/* Words of one lane's parts. */
static size_t lane_words(size_t terms)
{
    return lsi_blocks_count(terms, LSI_STEP_TERMS) *
           (LSI_STEP_WORDS / LSI_PANEL_LANES);
}

/* ---- one block ----------------------------------------------------------- */

/* Panel by panel within each pass. */
static void pack_block(const panel_run *r, const panel_block *k)
{
    uint32_t *to = k->a;
    for (size_t t = k->terms.begin; t < k->terms.end; t += PASS) {
        const lsi_range terms = lsi_blocks_next(t, PASS, k->terms.end);
        const size_t panel =
            LSI_PANEL_LANES * lane_words(lsi_range_size(terms));
        for (size_t i = k->rows.begin; i < k->rows.end; i += LSI_PANEL_LANES) {
            const lsi_strip strip = lsi_blocks_strip(
                r->a, r->g->lda, r->g->a_transposed,
                lsi_blocks_next(i, LSI_PANEL_LANES, k->rows.end), terms);
            r->ops->pack_a(to, &strip);
            to += panel;
        }
    }
}

static void put_columns(const panel_run *r, const panel_block *k,
                        lsi_range cols)
{
    const bool begins = k->terms.begin == 0;
    const size_t ld = (size_t)r->g->ldc;
    const lsi_amx_result result = {
        .c = r->c + k->rows.begin * ld + cols.begin,
        .ld = ld,
        .rows = lsi_range_size(k->rows),
        .cols = lsi_range_size(cols),
        .add = !begins || r->g->accumulate,
        .bias = begins && r->bias != NULL ? r->bias + cols.begin : NULL};
    r->ops->put(&result, k->sums);
}

static lsi_strip strip_of_b(const panel_run *r, lsi_range cols, lsi_range terms)
{
    return lsi_blocks_strip(r->b, r->g->ldb, !r->g->b_transposed, cols, terms);
}

/* The pass of B after this one: more terms, else more columns. */
static lsi_fetch fetch_b(const panel_run *r, const panel_block *k,
                         lsi_range cols, lsi_range terms)
{
    if (terms.end < k->terms.end)
        terms = lsi_blocks_next(terms.end, PASS, k->terms.end);
    else {
        terms = lsi_blocks_next(k->terms.begin, PASS, k->terms.end);
        cols = lsi_blocks_next(cols.end, LSI_PANEL_LANES, k->cols.end);
    }
    if (lsi_range_size(cols) == 0)
        return (lsi_fetch){.rows = 0};
    const lsi_strip s = strip_of_b(r, cols, terms);
    return lsi_blocks_fetch(&s);
}

static void multiply_columns(const panel_run *r, const panel_block *k,
                             lsi_range cols)
{
    lsi_amx_product p = {
        .sums = k->sums,
        .a = k->a,
        .b = k->b,
        .panels = lsi_blocks_count(lsi_range_size(k->rows), LSI_PANEL_LANES)};
    for (size_t t = k->terms.begin; t < k->terms.end; t += PASS) {
        const lsi_range terms = lsi_blocks_next(t, PASS, k->terms.end);
        const lsi_strip strip = strip_of_b(r, cols, terms);
        r->ops->pack_b(k->b, &strip);
        p.steps = lsi_blocks_count(lsi_range_size(terms), LSI_STEP_TERMS);
        p.add = t > k->terms.begin;
        p.fetch = fetch_b(r, k, cols, terms);
        r->ops->multiply(&p);
        p.a += p.panels * p.steps * LSI_STEP_WORDS;
    }
    put_columns(r, k, cols);
}

static void multiply_block(const panel_run *r, const panel_block *k)
{
    pack_block(r, k);
    for (size_t j = k->cols.begin; j < k->cols.end; j += LSI_PANEL_LANES)
        multiply_columns(r, k,
                         lsi_blocks_next(j, LSI_PANEL_LANES, k->cols.end));
}

/* ---- all ----------------------------------------------------------------- */

static size_t a_bytes(const panel_run *r)
{
    return r->rows * lane_words(r->depth) * sizeof(uint32_t);
}

static size_t b_bytes(void)
{
    return LSI_PANEL_LANES * lane_words(PASS) * sizeof(uint32_t);
}

static size_t worker_bytes(const panel_run *r)
{
    return a_bytes(r) + b_bytes() + r->rows * LSI_PANEL_LANES * sizeof(float);
}

static panel_block block_of(const panel_run *r, int worker)
{
    char *memory = r->memory + (size_t)worker * worker_bytes(r);
    return (panel_block){
        .a = (uint32_t *)(void *)memory,
        .b = (uint32_t *)(void *)(memory + a_bytes(r)),
        .sums = (float *)(void *)(memory + a_bytes(r) + b_bytes())};
}

static void multiply_part(void *context, size_t part, int worker)
{
    const panel_run *r = context;
    const size_t k = (size_t)r->g->k;
    const lsi_range rows = lsi_partition_aligned(
        (size_t)r->g->m, r->down, part / r->across, LSI_PANEL_LANES);
    panel_block block = block_of(r, worker);
    block.cols = lsi_partition_aligned((size_t)r->g->n, r->across,
                                       part % r->across, LSI_PANEL_LANES);
    lsi_tile_config before;
    r->ops->begin(&before);
    for (size_t t = 0; t < k; t += r->depth) {
        block.terms = lsi_blocks_next(t, r->depth, k);
        for (size_t i = rows.begin; i < rows.end; i += r->rows) {
            block.rows = lsi_blocks_next(i, r->rows, rows.end);
            multiply_block(r, &block);
        }
    }
    r->ops->end(&before);
}

bool lsi_panel_gemm_suits(const lsi_gemm_shape *shape)
{
    const int64_t least = 64;
    return lsi_kernels_get()->panels != NULL && shape->ab_dtype == LS_F32 &&
           shape->m >= least && shape->n >= least && shape->k >= least;
}

ls_status lsi_panel_gemm(const lsi_gemm_shape *shape, float *c, const float *a,
                         const float *b, const float *bias_or_null)
{
    const size_t threads = (size_t)lsi_threads();
    panel_run r = {.ops = lsi_kernels_get()->panels,
                   .g = shape,
                   .c = c,
                   .a = a,
                   .b = b,
                   .bias = bias_or_null};
    r.down = lsi_blocks_down(shape, threads);
    r.across = threads / r.down;
    r.depth = lsi_blocks_size((size_t)shape->k, DEPTH, LSI_STEP_TERMS);
    r.rows = lsi_blocks_size(lsi_blocks_count((size_t)shape->m, r.down), ROWS,
                             LSI_PANEL_LANES);
    LS_TRY(lsi_onednn_reserve(threads * worker_bytes(&r), &r.memory));
    lsi_parallel_tasks(r.down * r.across, multiply_part, &r);
    return LS_OK;
}
