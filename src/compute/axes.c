/*
 * Neighbouring dimensions that are both reduced, or both kept, are merged, so
 * that the array is a few groups of alternating kind. If the innermost group is
 * reduced, each element of the result is a sum over rows; if it is kept, the
 * result is made of vectors that are added up, columns by columns.
 */
#include "compute/axes.h"

#include <math.h>

#include "base/threads.h"
#include "compute/array.h"
#include "compute/broadcast.h"
#include "kernels/kernels.h"

enum {
    GRAIN = 1 << 14, /* elements worth a thread */
    COLUMNS = 64,    /* that a kernel sums together */
    FOLDED = 16      /* vectors whose largest elements are found at once */
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
    for (int k = g->n - 1; k >= 0; k--) {
        offset += i % (size_t)g->extent[k] * (size_t)g->stride[k];
        i /= (size_t)g->extent[k];
    }
    return offset;
}

/* The arguments of any of the calls. */
typedef struct axes_job {
    plan p;
    float *y;
    const float *x;
    double factor;
} axes_job;

static size_t grain_of(size_t work)
{
    return work < GRAIN ? 1 + GRAIN / (work + 1) : 1;
}

/* ---- sums ---------------------------------------------------------------- */

static void sum_rows(void *context, size_t begin, size_t end)
{
    const axes_job *j = context;
    const lsi_kernels *k = lsi_kernels_get();
    for (size_t o = begin; o < end; o++) {
        const float *x = j->x + offset_of(&j->p.kept, o);
        double total = 0.0;
        for (size_t s = 0; s < j->p.summed.count; s++) {
            double part;
            k->sum(&part, x + offset_of(&j->p.summed, s), j->p.inner);
            total += part;
        }
        j->y[o] = (float)(total * j->factor);
    }
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
        const float *x = j->x + offset_of(&j->p.kept, at / inner) + c;
        for (size_t i = 0; i < s->count; i += rows)
            k->column_sum(j->y + at, x + offset_of(s, i), rows, n, ld, i > 0);
        if (j->factor != 1.0)
            k->scale(j->y + at, j->y + at, (float)j->factor, n);
        at += n;
    }
}

void lsi_axes_sum(const lsi_axes *axes, float *y, const float *x, double factor)
{
    axes_job j = {.p = plan_of(axes), .y = y, .x = x, .factor = factor};
    const size_t kept = j.p.kept.count, summed = j.p.summed.count;
    if (j.p.rows && kept == 1 && j.p.kept.n == 0 && j.p.summed.n == 0)
        lsi_array_sum(y, x, j.p.inner, factor);
    else if (j.p.rows)
        lsi_parallel_for(kept, grain_of(summed * j.p.inner), sum_rows, &j);
    else if (summed == 0)
        lsi_array_zero(y, LS_F32, kept * j.p.inner);
    else if (j.p.inner > 0)
        lsi_parallel_for(kept * j.p.inner, grain_of(summed), sum_columns, &j);
}

void lsi_axes_spread(const lsi_axes *axes, float *dx, const float *dy,
                     double factor)
{
    static const int64_t still[LS_MAX_DIMS] = {0};
    const float f = (float)factor;
    int64_t strides[LS_MAX_DIMS] = {0}, step = 1;
    for (int d = axes->ndim - 1; d >= 0; d--) {
        if (axes->reduced[d])
            continue;
        strides[d] = step;
        step *= axes->shape[d];
    }
    lsi_broadcast_binary(LSI_BINARY_MUL, dx, axes->ndim, axes->shape,
                         (lsi_repeated){dy, strides},
                         (lsi_repeated){&f, still});
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

/* As sum_columns, by the kernel that folds vectors. */
static void max_columns(void *context, size_t begin, size_t end)
{
    const axes_job *j = context;
    const groups *s = &j->p.summed;
    const size_t inner = j->p.inner;
    for (size_t at = begin; at < end;) {
        const size_t c = at % inner;
        const size_t n = inner - c < end - at ? inner - c : end - at;
        const float *x = j->x + offset_of(&j->p.kept, at / inner) + c;
        for (size_t i = 0; i < s->count;) {
            const void *vectors[FOLDED] = {j->y + at};
            int count = i > 0; /* after the first time, what there is */
            while (count < FOLDED && i < s->count)
                vectors[count++] = x + offset_of(s, i++);
            lsi_kernels_get()->reduce(j->y + at, vectors, count, n, LS_F32,
                                      LS_MAX, 1.0);
        }
        at += n;
    }
}

void lsi_axes_max(const lsi_axes *axes, float *y, const float *x)
{
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
    float *dx, *counts;
    const float *dy, *x, *y;
} max_job;

static float share(float dy, float x, float y, float count)
{
    if (count == 0.0F) /* nothing equals NaN */
        return NAN;
    return x == y ? dy / count : 0.0F;
}

/* All that element or vector o of the result was made of: twice over x. */
static void max_backward(void *context, size_t begin, size_t end)
{
    const max_job *j = context;
    const size_t inner = j->p.inner, step = j->p.rows ? 0 : 1;
    const size_t each = j->p.rows ? 1 : inner;
    for (size_t o = begin; o < end; o++) {
        const size_t base = offset_of(&j->p.kept, o);
        const float *y = j->y + o * each, *dy = j->dy + o * each;
        float *counts = j->counts + o * each;
        for (size_t c = 0; c < each; c++)
            counts[c] = 0.0F;
        for (size_t s = 0; s < j->p.summed.count; s++) {
            const float *x = j->x + base + offset_of(&j->p.summed, s);
            for (size_t c = 0; c < inner; c++)
                counts[c * step] += x[c] == y[c * step] ? 1.0F : 0.0F;
        }
        for (size_t s = 0; s < j->p.summed.count; s++) {
            const size_t at = base + offset_of(&j->p.summed, s);
            for (size_t c = 0; c < inner; c++)
                j->dx[at + c] = share(dy[c * step], j->x[at + c], y[c * step],
                                      counts[c * step]);
        }
    }
}

void lsi_axes_max_backward(const lsi_axes *axes, float *dx, const float *dy,
                           const float *x, const float *y, float *counts)
{
    max_job j = {plan_of(axes), dx, counts, dy, x, y};
    lsi_parallel_for(j.p.kept.count, grain_of(j.p.summed.count * j.p.inner),
                     max_backward, &j);
}
