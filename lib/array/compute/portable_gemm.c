/*
 * Blocks: up to ROWS rows and a block of terms of A stay in the second-level
 * cache while panels of B pass by, each packed just before it is multiplied.
 * The sums of the blocks are added up in C. Where C is needed at the end, as it
 * is accumulated to, they are added up in scratch memory.
 */
#include "array/compute/portable_gemm.h"

#include "array/compute/gemm_blocks.h"
#include "array/compute/plan_cache.h"
#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "array/kernels/portable.h"
#include "base/bits.h"
#include "base/error.h"

enum {
    ROWS = 512,
    IN_PLACE_ROWS = 128,    /* of A, at most, for which B is not packed */
    CROWDED_ROWS = 16,      /* the same, for a crowded B */
    KEPT_COLS = 512,        /* columns whose sums are in scratch memory */
    PART_TERMS = 64 * 1024, /* products of numbers that are worth a thread */
};

static const lsi_plan_kind memory_kind =
    LSI_WORKSPACE_KIND("packed matrices of a product");

typedef struct gemm_run {
    const lsi_portable_ops *ops;
    const lsi_gemm_shape *g;
    const lsi_gemm_batch *batch;
    float *c;
    const float *a, *b, *bias;
    size_t down, across; /* parts of the rows and columns of each product */
    size_t rows, cols;   /* of a block */
    bool keeps;          /* sums are in scratch memory */
    float *memory;       /* of each worker, one after another */
} gemm_run;

/* One block of A, and the columns of B that it meets. */
typedef struct gemm_block {
    lsi_range rows, cols, terms;
    float *c;
    const float *a, *b;                     /* of the product */
    float *packed_a, *packed_b, *kept_sums; /* scratch memory */
} gemm_block;

/* ---- one block ----------------------------------------------------------- */

static void pack_a(const gemm_run *r, const gemm_block *k)
{
    const size_t height = r->ops->rows;
    float *to = k->packed_a;
    for (size_t i = k->rows.begin; i < k->rows.end; i += height) {
        const lsi_range rows = lsi_blocks_next(i, height, k->rows.end);
        const lsi_strip strip = lsi_blocks_strip(
            k->a, r->g->lda, r->g->a_transposed, rows, k->terms);
        r->ops->pack(to, &strip, lsi_range_size(rows));
        to += lsi_range_size(rows) * lsi_range_size(k->terms);
    }
}

static lsi_strip strip_of_b(const gemm_run *r, const gemm_block *k,
                            size_t first)
{
    return lsi_blocks_strip(k->b, r->g->ldb, !r->g->b_transposed,
                            lsi_blocks_next(first, r->ops->lanes, k->cols.end),
                            k->terms);
}

/*
 * Whether a panel of B is not worth packing for the rows of A. Rows of B that
 * are a multiple of 4 KiB apart share a set of the first-level cache.
 */
static bool stays_in_place(const gemm_run *r, const gemm_block *k,
                           const lsi_strip *strip)
{
    const bool crowded = strip->ld * sizeof(float) % 4096 == 0;
    return strip->lanes_dense && strip->lanes == r->ops->lanes &&
           lsi_range_size(k->rows) <= (crowded ? CROWDED_ROWS : IN_PLACE_ROWS);
}

static void multiply_columns(const gemm_run *r, const gemm_block *k, size_t col)
{
    const size_t ldc = (size_t)r->g->ldc, next = col + r->ops->lanes;
    const bool first = k->terms.begin == 0;
    const bool last = k->terms.end == (size_t)r->g->k;
    float *const c = k->c + k->rows.begin * ldc + col;
    float *const kept = k->kept_sums + (col - k->cols.begin);
    const lsi_strip strip = strip_of_b(r, k, col);
    const bool in_place = stays_in_place(r, k, &strip);
    lsi_portable_product p = {.a = k->packed_a,
                              .b = in_place ? strip.data : k->packed_b,
                              .ld_b = in_place ? strip.ld : r->ops->lanes,
                              .rows = lsi_range_size(k->rows),
                              .cols = strip.lanes,
                              .terms = strip.terms,
                              .c = r->keeps && !last ? kept : c,
                              .ldc = r->keeps && !last ? r->cols : ldc,
                              .ld_totals = r->keeps ? r->cols : ldc,
                              .accumulate = last && r->g->accumulate};
    if (!first)
        p.totals = r->keeps ? kept : c;
    if (last && r->bias != NULL)
        p.bias_or_null = r->bias + col;
    if (next < k->cols.end) {
        const lsi_strip following = strip_of_b(r, k, next);
        p.fetch = lsi_blocks_fetch(&following);
    }
    if (!in_place)
        r->ops->pack(k->packed_b, &strip, r->ops->lanes);
    r->ops->multiply(&p);
}

static void multiply_block(const gemm_run *r, const gemm_block *k)
{
    pack_a(r, k);
    for (size_t j = k->cols.begin; j < k->cols.end; j += r->ops->lanes)
        multiply_columns(r, k, j);
}

/* All terms of some rows and columns; without terms, one block of none. */
static void multiply_terms(const gemm_run *r, gemm_block *k)
{
    const size_t all = (size_t)r->g->k;
    size_t at = 0;
    do {
        k->terms = lsi_blocks_next(at, LSI_PORTABLE_BLOCK, all);
        multiply_block(r, k);
        at = k->terms.end;
    } while (at < all);
}

/* ---- all ----------------------------------------------------------------- */

static size_t a_floats(const gemm_run *r)
{
    return r->rows * LSI_PORTABLE_BLOCK + LSI_PORTABLE_SLACK;
}

static size_t b_floats(const gemm_run *r)
{
    return r->ops->lanes * LSI_PORTABLE_BLOCK + LSI_PORTABLE_SLACK;
}

static size_t worker_floats(const gemm_run *r)
{
    return a_floats(r) + b_floats(r) + (r->keeps ? r->rows * r->cols : 0);
}

/* The matrices of one product of the batch. */
static gemm_block product_of(const gemm_run *r, size_t product, int worker)
{
    float *const memory = r->memory + (size_t)worker * worker_floats(r);
    gemm_block block = {.c = r->c,
                        .a = r->a,
                        .b = r->b,
                        .packed_a = memory,
                        .packed_b = memory + a_floats(r),
                        .kept_sums = memory + a_floats(r) + b_floats(r)};
    for (int64_t d = r->batch->ndim - 1; d >= 0; d--) {
        const int64_t extent = r->batch->extent[d];
        const int64_t at = (int64_t)product % extent;
        product /= (size_t)extent;
        block.a += at * r->batch->a[d];
        block.b += at * r->batch->b[d];
        block.c += at * r->batch->c[d];
    }
    return block;
}

static void multiply_part(void *context, size_t part, int worker)
{
    const gemm_run *r = context;
    const size_t parts = r->down * r->across, at = part % parts;
    const lsi_range rows = lsi_partition_aligned((size_t)r->g->m, r->down,
                                                 at / r->across, r->ops->rows);
    const lsi_range cols = lsi_partition_aligned((size_t)r->g->n, r->across,
                                                 at % r->across, r->ops->lanes);
    gemm_block block = product_of(r, part / parts, worker);
    for (size_t i = rows.begin; i < rows.end; i += r->rows)
        for (size_t j = cols.begin; j < cols.end; j += r->cols) {
            block.rows = lsi_blocks_next(i, r->rows, rows.end);
            block.cols = lsi_blocks_next(j, r->cols, cols.end);
            multiply_terms(r, &block);
        }
}

/* Parts of each product, for all threads, if they have enough to do. */
static size_t parts_of(const lsi_gemm_shape *g, size_t products)
{
    const size_t threads = (size_t)lsi_threads();
    const size_t terms = (size_t)g->m * (size_t)g->n * (size_t)g->k;
    const size_t most = terms / PART_TERMS + 1;
    return products >= threads
               ? 1
               : lsi_blocks_smaller(lsi_blocks_count(threads, products), most);
}

bool lsi_portable_gemm_suits(const lsi_gemm_shape *shape)
{
    return lsi_bits_are_portable() && shape->ab_dtype == LS_F32;
}

ls_status lsi_portable_gemm(const lsi_gemm_shape *shape,
                            const lsi_gemm_batch *batch, float *c,
                            const float *a, const float *b,
                            const float *bias_or_null)
{
    gemm_run r = {.ops = lsi_kernels_get()->portable,
                  .g = shape,
                  .batch = batch,
                  .c = c,
                  .a = a,
                  .b = b,
                  .bias = bias_or_null,
                  .keeps = shape->accumulate && shape->k > LSI_PORTABLE_BLOCK};
    size_t products = 1;
    void *memory;
    for (int64_t d = 0; d < batch->ndim; d++)
        products *= (size_t)batch->extent[d];
    const size_t parts = parts_of(shape, products);
    r.down = lsi_blocks_down(shape, parts);
    r.across = parts / r.down;
    r.rows = lsi_blocks_size(lsi_blocks_count((size_t)shape->m, r.down), ROWS,
                             r.ops->rows);
    r.cols = r.keeps
                 ? lsi_blocks_size(lsi_blocks_count((size_t)shape->n, r.across),
                                   KEPT_COLS, r.ops->lanes)
                 : (size_t)shape->n;
    LS_TRY(lsi_workspace_get(
        &memory_kind, (size_t)lsi_threads() * worker_floats(&r) * sizeof(float),
        memory_kind.name, &memory));
    r.memory = memory;
    lsi_parallel_tasks(products * parts, multiply_part, &r);
    return LS_OK;
}
