/*
 * Batches of matrix products. Dimensions of the batch along which one of the
 * matrices simply continues become part of the product. So a weight that all
 * share is multiplied with all rows at once, and its gradient is one sum over
 * them. The remaining products with a separate C each go to oneDNN in one call.
 * Along dimensions that are added up, one call follows the other.
 */
#include "array/compute/array.h"
#include "array/compute/dense.h"
#include "array/compute/onednn/gemm.h"
#include "array/compute/panel_gemm.h"
#include "array/compute/portable_gemm.h"
#include "array/compute/work.h"
#include "array/kernels/kernels.h"
#include "base/error.h"

typedef struct products {
    lsi_gemm_shape g;
    lsi_gemm_batch batch;
    char *c;
    const char *a, *b;
} products;

/* ---- fewer dimensions ---------------------------------------------------- */

static void remove_dim(lsi_gemm_batch *batch, int at)
{
    batch->ndim--;
    for (int d = at; d < batch->ndim; d++) {
        batch->extent[d] = batch->extent[d + 1];
        batch->a[d] = batch->a[d + 1];
        batch->b[d] = batch->b[d + 1];
        batch->c[d] = batch->c[d + 1];
    }
    /* Unused entries are compared, too, when plans are looked up. */
    const int64_t last = batch->ndim;
    batch->extent[last] = batch->a[last] = batch->b[last] = batch->c[last] = 0;
}

/* Dimension d + 1 steps on where d has ended, in all matrices. */
static bool goes_on(const lsi_gemm_batch *batch, int d)
{
    const int64_t n = batch->extent[d + 1];
    return batch->a[d] == n * batch->a[d + 1] &&
           batch->b[d] == n * batch->b[d + 1] &&
           batch->c[d] == n * batch->c[d + 1];
}

/* The innermost dimension as further rows of A and C, or terms of the sum. */
static bool fold(lsi_gemm_shape *g, lsi_gemm_batch *batch)
{
    const int64_t last = batch->ndim - 1;
    const int64_t a = batch->a[last], b = batch->b[last], c = batch->c[last];
    if (b == 0 && !g->a_transposed && a == g->m * g->lda && c == g->m * g->ldc)
        g->m *= batch->extent[last];
    else if (c == 0 && g->a_transposed && !g->b_transposed &&
             a == g->k * g->lda && b == g->k * g->ldb)
        g->k *= batch->extent[last];
    else
        return false;
    remove_dim(batch, (int)last);
    return true;
}

static void simplify(lsi_gemm_shape *g, lsi_gemm_batch *batch)
{
    for (int d = (int)batch->ndim - 1; d >= 0; d--)
        if (batch->extent[d] == 1)
            remove_dim(batch, d);
    for (int d = (int)batch->ndim - 2; d >= 0; d--) {
        if (!goes_on(batch, d))
            continue;
        batch->extent[d + 1] *= batch->extent[d];
        remove_dim(batch, d);
    }
    while (batch->ndim > 0 && fold(g, batch)) {
    }
}

/* ---- running ------------------------------------------------------------- */

/* One after another, over the dimensions that are left. */
static ls_status run_each(products p)
{
    if (p.batch.ndim == 0)
        return lsi_gemm_run(&p.g, p.c, p.a, p.b, NULL);
    const int64_t ab_size = (int64_t)ls_dtype_size(p.g.ab_dtype);
    const int64_t c_size = (int64_t)ls_dtype_size(p.g.c_dtype);
    const int64_t n = p.batch.extent[0], a = p.batch.a[0] * ab_size;
    const int64_t b = p.batch.b[0] * ab_size, c = p.batch.c[0] * c_size;
    remove_dim(&p.batch, 0);
    for (int64_t i = 0; i < n; i++) {
        LS_TRY(run_each(p));
        p.a += a;
        p.b += b;
        p.c += c;
    }
    return LS_OK;
}

/* All products have a separate C. */
static ls_status run_apart(const products *p)
{
    bool done = false;
    if (lsi_portable_gemm_suits(&p->g))
        return lsi_portable_gemm(&p->g, &p->batch, (float *)(void *)p->c,
                                 (const float *)(const void *)p->a,
                                 (const float *)(const void *)p->b, NULL);
    const bool alone = p->batch.ndim == 0 || p->g.k == 0 ||
                       lsi_kernels_get()->isa == LSI_ISA_REF ||
                       lsi_panel_gemm_suits(&p->g);
    if (!alone)
        LS_TRY(
            lsi_onednn_gemm_batch(&p->g, &p->batch, p->c, p->a, p->b, &done));
    return done ? LS_OK : run_each(*p);
}

/* Dimensions that are added up are removed, and become a loop. */
static ls_status run_added(products p, int from)
{
    int d = from;
    while (d < p.batch.ndim && p.batch.c[d] != 0)
        d++;
    if (d == p.batch.ndim)
        return run_apart(&p);
    const int64_t size = (int64_t)ls_dtype_size(p.g.ab_dtype);
    const int64_t n = p.batch.extent[d];
    const int64_t a = p.batch.a[d] * size, b = p.batch.b[d] * size;
    remove_dim(&p.batch, d);
    for (int64_t i = 0; i < n; i++) {
        LS_TRY(run_added(p, d));
        p.a += a;
        p.b += b;
        p.g.accumulate = true;
    }
    return LS_OK;
}

ls_status lsi_gemm_run_batch(const lsi_gemm_shape *shape,
                             const lsi_gemm_batch *batch, void *c,
                             const void *a, const void *b)
{
    LSI_SPAN(
        KERNEL, lsi_work_gemm_batch_name(shape),
        lsi_work_gemm_bytes(shape,
                            lsi_work_elements(batch->ndim, batch->extent)),
        lsi_work_gemm(shape, lsi_work_elements(batch->ndim, batch->extent)));
    products p = {*shape, *batch, c, a, b};
    int64_t all = 1, of_c = shape->m * shape->n;
    for (int d = 0; d < batch->ndim; d++) {
        all *= batch->extent[d];
        of_c *= batch->c[d] != 0 ? batch->extent[d] : 1;
    }
    if (all == 0 || of_c == 0) { /* sums of nothing */
        if (!shape->accumulate)
            lsi_array_zero(c, shape->c_dtype, (size_t)of_c);
        return LS_OK;
    }
    simplify(&p.g, &p.batch);
    return run_added(p, 0);
}
