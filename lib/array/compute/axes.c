/*
 * Neighbouring dimensions that are both reduced, or both kept, are merged, so
 * that the array is a few groups of alternating kind. If the innermost group is
 * reduced, each element of the result is a sum over rows; if it is kept, the
 * result is made of vectors that are added up, columns by columns.
 */
#include "array/compute/axes.h"
#include "array/compute/work.h"

#include <math.h>
#include <string.h>

#include "array/compute/array.h"
#include "array/compute/threads.h"
#include "array/kernels/kernels.h"

enum {
    GRAIN = 1 << 14, /* elements worth a thread */
    COLUMNS = 64,    /* that a kernel sums together */
    BLOCK = 1 << 10  /* elements of a row that are summed in f32 */
};

/* Some of the groups, outermost first, with their strides in x. */
typedef struct groups {
    int n;
    int64_t extent[LS_MAX_DIMS];
    int64_t stride[LS_MAX_DIMS];
    size_t count; /* product of the extents */
} groups;

typedef struct plan {
    bool rows;           /* the innermost group is reduced */
    size_t inner;        /* its extent */
    groups kept, summed; /* the others */
} plan;

static void add_group(groups *g, int64_t extent, int64_t stride)
{
    g->extent[g->n] = extent;
    g->stride[g->n++] = stride;
    g->count *= (size_t)extent;
}

/* Empty dimensions make empty groups. */
static plan plan_of(const lsi_axes *axes)
{
    int n = 0;
    int64_t extent[LS_MAX_DIMS], stride[LS_MAX_DIMS], step = 1;
    bool reduced[LS_MAX_DIMS];
    for (int d = axes->ndim - 1; d >= 0; d--) { /* innermost first */
        if (axes->shape[d] == 1)
            continue;
        if (n > 0 && reduced[n - 1] == axes->reduced[d]) {
            extent[n - 1] *= axes->shape[d];
        } else {
            extent[n] = axes->shape[d];
            reduced[n] = axes->reduced[d];
            stride[n++] = step;
        }
        step *= axes->shape[d];
    }
    plan p = {.inner = n > 0 ? (size_t)extent[0] : 1,
              .rows = n > 0 && reduced[0],
              .kept.count = 1,
              .summed.count = 1};
    for (int i = n - 1; i > 0; i--)
        add_group(reduced[i] ? &p.summed : &p.kept, extent[i], stride[i]);
    return p;
}

/* Where element i of the groups begins in x. */
static size_t offset_of(const groups *g, size_t i)
{
    size_t offset = 0;
    for (int k = g->n - 1; k > 0; k--) {
        offset += i % (size_t)g->extent[k] * (size_t)g->stride[k];
        i /= (size_t)g->extent[k];
    }
    return g->n > 0 ? offset + i * (size_t)g->stride[0] : 0;
}

/* The arguments of any of the calls. */
typedef struct axes_job {
    plan p;
    float *y;
    const float *x;
    const float *times; /* NULL, or factors by which x is multiplied first */
    double factor;
} axes_job;

static size_t grain_of(size_t work)
{
    return work < GRAIN ? 1 + GRAIN / (work + 1) : 1;
}

/* ---- sums ---------------------------------------------------------------- */

/* The sum of a row, made of blocks of f32 sums. */
static double sum_row(const axes_job *j, size_t at)
{
    const lsi_kernels *k = lsi_kernels_get();
    float products[BLOCK];
    double total = 0.0, part;
    for (size_t i = 0; i < j->p.inner; i += BLOCK) {
        const size_t left = j->p.inner - i;
        const size_t n = left < BLOCK ? left : BLOCK;
        const float *x = j->x + at + i;
        if (j->times != NULL) {
            k->mul(products, x, j->times + at + i, n);
            x = products;
        }
        k->row_sum(&part, x, n);
        total += part;
    }
    return total;
}

static void sum_rows(void *context, size_t begin, size_t end)
{
    const axes_job *j = context;
    for (size_t o = begin; o < end; o++) {
        const size_t at = offset_of(&j->p.kept, o);
        double total = 0.0;
        for (size_t s = 0; s < j->p.summed.count; s++)
            total += sum_row(j, at + offset_of(&j->p.summed, s));
        j->y[o] = (float)(total * j->factor);
    }
}

/* Some columns of some rows of x, whose rows are ld elements apart. */
typedef struct window {
    size_t at, ld, rows, cols;
} window;

/* Of up to LSI_COLUMN_BLOCK rows and COLUMNS columns. */
static void add_products(const axes_job *j, float *y, window w, bool accumulate)
{
    const lsi_kernels *k = lsi_kernels_get();
    float products[LSI_COLUMN_BLOCK * COLUMNS];
    for (size_t r = 0; r < w.rows; r++)
        k->mul(products + r * w.cols, j->x + w.at + r * w.ld,
               j->times + w.at + r * w.ld, w.cols);
    k->column_sum(y, products, w.rows, w.cols, w.cols, accumulate);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* y = or += the sums over rows of x, or of its products. */
static void add_columns(const axes_job *j, float *y, window w, bool accumulate)
{
    if (j->times == NULL) {
        lsi_kernels_get()->column_sum(y, j->x + w.at, w.rows, w.cols, w.ld,
                                      accumulate);
        return;
    }
    for (size_t c = 0; c < w.cols; c += COLUMNS)
        for (size_t r = 0; r < w.rows; r += LSI_COLUMN_BLOCK)
            add_products(j, y + c,
                         (window){w.at + r * w.ld + c, w.ld,
                                  smaller(w.rows - r, LSI_COLUMN_BLOCK),
                                  smaller(w.cols - c, COLUMNS)},
                         accumulate || r > 0);
}

/* Columns begin..end-1 of all vectors of the result, put one after another. */
static void sum_columns(void *context, size_t begin, size_t end)
{
    const axes_job *j = context;
    const lsi_kernels *k = lsi_kernels_get();
    const groups *s = &j->p.summed;
    const size_t rows = s->n > 0 ? (size_t)s->extent[s->n - 1] : 1;
    const size_t ld = s->n > 0 ? (size_t)s->stride[s->n - 1] : j->p.inner;
    const size_t inner = j->p.inner;
    for (size_t at = begin; at < end;) {
        const size_t c = at % inner;
        const size_t n = inner - c < end - at ? inner - c : end - at;
        const size_t x = offset_of(&j->p.kept, at / inner) + c;
        for (size_t i = 0; i < s->count; i += rows)
            add_columns(j, j->y + at,
                        (window){x + offset_of(s, i), ld, rows, n}, i > 0);
        if (j->factor != 1.0)
            k->scale(j->y + at, j->y + at, (float)j->factor, n);
        at += n;
    }
}

static void sum(const lsi_axes *axes, float *y, const float *x,
                const float *times, double factor)
{
    axes_job j = {plan_of(axes), y, x, times, factor};
    const size_t kept = j.p.kept.count, summed = j.p.summed.count;
    if (j.p.rows && j.p.kept.n == 0 && j.p.summed.n == 0 && times == NULL)
        lsi_array_sum(y, x, j.p.inner, factor);
    else if (j.p.rows)
        lsi_parallel_for(kept, grain_of(summed * j.p.inner), sum_rows, &j);
    else if (summed == 0)
        lsi_array_zero(y, LS_F32, kept * j.p.inner);
    else if (j.p.inner > 0)
        lsi_parallel_for(kept * j.p.inner, grain_of(summed), sum_columns, &j);
}

void lsi_axes_sum(const lsi_axes *axes, float *y, const float *x, double factor)
{
    LSI_SPAN(KERNEL, "axes_sum", 4 * lsi_work_elements(axes->ndim, axes->shape),
             lsi_work_elements(axes->ndim, axes->shape));
    sum(axes, y, x, NULL, factor);
}

void lsi_axes_sum_products(const lsi_axes *axes, float *y, const float *a,
                           const float *b)
{
    LSI_SPAN(KERNEL, "axes_sum_products",
             8 * lsi_work_elements(axes->ndim, axes->shape),
             2 * lsi_work_elements(axes->ndim, axes->shape));
    sum(axes, y, a, b, 1.0);
}

/* ---- repeating ----------------------------------------------------------- */

/* Elements or vectors of dy, x here, in all places of each; y is dx. */
static void spread_range(void *context, size_t begin, size_t end)
{
    const axes_job *j = context;
    const lsi_kernels *k = lsi_kernels_get();
    const float factor = (float)j->factor;
    const size_t summed = j->p.summed.count, inner = j->p.inner;
    for (size_t i = begin; i < end; i++) {
        const size_t o = i / summed, s = i % summed;
        float *to =
            j->y + offset_of(&j->p.kept, o) + offset_of(&j->p.summed, s);
        if (j->p.rows)
            k->fill(to, j->x[o] * factor, inner);
        else
            k->scale(to, j->x + o * inner, factor, inner);
    }
}

void lsi_axes_spread(const lsi_axes *axes, float *dx, const float *dy,
                     double factor)
{
    LSI_SPAN(KERNEL, "axes_spread",
             4 * lsi_work_elements(axes->ndim, axes->shape),
             lsi_work_elements(axes->ndim, axes->shape));
    axes_job j = {.p = plan_of(axes), .y = dx, .x = dy, .factor = factor};
    lsi_parallel_for(j.p.kept.count * j.p.summed.count, grain_of(j.p.inner),
                     spread_range, &j);
}

/* ---- largest ------------------------------------------------------------- */

static void max_rows(void *context, size_t begin, size_t end)
{
    const axes_job *j = context;
    const lsi_kernels *k = lsi_kernels_get();
    for (size_t o = begin; o < end; o++) {
        const float *x = j->x + offset_of(&j->p.kept, o);
        float most = -INFINITY;
        for (size_t s = 0; s < j->p.summed.count; s++) {
            float part;
            k->max(&part, x + offset_of(&j->p.summed, s), j->p.inner);
            most = part > most || isnan(part) ? part : most;
            if (isnan(most))
                break;
        }
        j->y[o] = most;
    }
}

/* As sum_columns. */
static void max_columns(void *context, size_t begin, size_t end)
{
    const axes_job *j = context;
    const lsi_kernels *k = lsi_kernels_get();
    const groups *s = &j->p.summed;
    const size_t inner = j->p.inner;
    for (size_t at = begin; at < end;) {
        const size_t c = at % inner;
        const size_t n = inner - c < end - at ? inner - c : end - at;
        const float *x = j->x + offset_of(&j->p.kept, at / inner) + c;
        k->fill(j->y + at, -INFINITY, n);
        for (size_t i = 0; i < s->count; i++)
            k->larger(j->y + at, j->y + at, x + offset_of(s, i), n);
        at += n;
    }
}

void lsi_axes_max(const lsi_axes *axes, float *y, const float *x)
{
    LSI_SPAN(KERNEL, "axes_max", 4 * lsi_work_elements(axes->ndim, axes->shape),
             lsi_work_elements(axes->ndim, axes->shape));
    axes_job j = {.p = plan_of(axes), .y = y, .x = x};
    const size_t kept = j.p.kept.count, summed = j.p.summed.count;
    if (j.p.rows)
        lsi_parallel_for(kept, grain_of(summed * j.p.inner), max_rows, &j);
    else if (j.p.inner > 0)
        lsi_parallel_for(kept * j.p.inner, grain_of(summed), max_columns, &j);
}

/* ---- and back ------------------------------------------------------------ */

typedef struct max_job {
    plan p;
    float *dx;
    uint64_t *counts;
    const float *dy, *x, *y;
} max_job;

static float share(float dy, float x, float y, uint64_t count)
{
    if (count == 0) /* nothing equals NaN */
        return NAN;
    return x == y ? dy / (float)count : 0.0F;
}

/* All that element o of the result was made of: twice over x. */
static void max_rows_backward(void *context, size_t begin, size_t end)
{
    const max_job *j = context;
    for (size_t o = begin; o < end; o++) {
        const size_t base = offset_of(&j->p.kept, o), inner = j->p.inner;
        const float y = j->y[o];
        uint64_t count = 0;
        for (size_t s = 0; s < j->p.summed.count; s++) {
            const float *x = j->x + base + offset_of(&j->p.summed, s);
            for (size_t c = 0; c < inner; c++)
                count += x[c] == y;
        }
        const float each = share(j->dy[o], y, y, count);
        const float rest = count == 0 ? NAN : 0.0F;
        for (size_t s = 0; s < j->p.summed.count; s++) {
            const size_t at = base + offset_of(&j->p.summed, s);
            for (size_t c = 0; c < inner; c++)
                j->dx[at + c] = j->x[at + c] == y ? each : rest;
        }
    }
}

/* The same of vector o of the result. */
static void max_columns_backward(void *context, size_t begin, size_t end)
{
    const max_job *j = context;
    const size_t inner = j->p.inner;
    for (size_t o = begin; o < end; o++) {
        const size_t base = offset_of(&j->p.kept, o);
        const float *y = j->y + o * inner, *dy = j->dy + o * inner;
        uint64_t *counts = j->counts + o * inner;
        memset(counts, 0, inner * sizeof *counts);
        for (size_t s = 0; s < j->p.summed.count; s++) {
            const float *x = j->x + base + offset_of(&j->p.summed, s);
            for (size_t c = 0; c < inner; c++)
                counts[c] += x[c] == y[c];
        }
        for (size_t s = 0; s < j->p.summed.count; s++) {
            const size_t at = base + offset_of(&j->p.summed, s);
            for (size_t c = 0; c < inner; c++)
                j->dx[at + c] = share(dy[c], j->x[at + c], y[c], counts[c]);
        }
    }
}

void lsi_axes_max_backward(const lsi_axes *axes, float *dx, const float *dy,
                           const float *x, const float *y, uint64_t *counts)
{
    LSI_SPAN(KERNEL, "axes_max_backward",
             8 * lsi_work_elements(axes->ndim, axes->shape),
             lsi_work_elements(axes->ndim, axes->shape));
    max_job j = {plan_of(axes), dx, counts, dy, x, y};
    lsi_parallel_for(j.p.kept.count, grain_of(j.p.summed.count * j.p.inner),
                     j.p.rows ? max_rows_backward : max_columns_backward, &j);
}
