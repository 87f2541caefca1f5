/*
 * Through a stride, the pixels that filters reach are copied to a dense matrix,
 * or from one, a group of them at a time, which stays in the cache.
 */
#include "array/compute/portable_pointwise.h"

#include <string.h>

#include "array/compute/plan_cache.h"
#include "array/compute/portable_gemm.h"
#include "array/compute/threads.h"
#include "base/error.h"

enum {
    GROUP_FLOATS = 1 << 17, /* of the dense matrix, for each thread */
    TASK_PIXELS = 64        /* that are copied at once */
};

/* Pixels are counted as filters reach them: (n, oh, ow). */
typedef struct pixels {
    const lsi_conv2d_shape *s;
    int64_t oh, ow, all;
    int64_t group; /* pixels, or whole images, at most */
    float *dense;  /* (group, c); NULL: no stride */

    int64_t first, count; /* pixels of this group */
    const float *src;
    float *dsrc;
} pixels;

static int64_t smaller_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static size_t pixel_bytes(const pixels *p)
{
    return (size_t)p->s->c * sizeof(float);
}

bool lsi_portable_pointwise_suits(const lsi_conv2d_shape *s)
{
    return s->kh == 1 && s->kw == 1 && s->padding == 0 && s->groups == 1;
}

/* Groups are multiples of `unit` pixels. */
static ls_status open_pixels(pixels *p, int64_t unit)
{
    static const lsi_plan_kind kind =
        LSI_WORKSPACE_KIND("pixels of a convolution");
    const lsi_conv2d_shape *s = p->s;
    const int64_t most = GROUP_FLOATS * lsi_threads() / s->c / unit * unit;
    p->oh = lsi_conv2d_extent(s, s->h, 1);
    p->ow = lsi_conv2d_extent(s, s->w, 1);
    p->all = s->n * p->oh * p->ow;
    p->group = s->stride == 1 ? p->all : smaller_of(p->all, most);
    if (p->group < unit)
        p->group = unit;
    void *memory = NULL;
    if (s->stride > 1)
        LS_TRY(lsi_workspace_get(&kind, (size_t)p->group * pixel_bytes(p),
                                 kind.name, &memory));
    p->dense = memory;
    return LS_OK;
}

static int64_t next_group(pixels *p)
{
    p->first += p->count;
    p->count = smaller_of(p->group, p->all - p->first);
    return p->count;
}

/* ---- copies -------------------------------------------------------------- */

void lsi_portable_pointwise_gather(const lsi_conv2d_shape *s, float *to,
                                   const float *src, int64_t first,
                                   int64_t count, int64_t channels)
{
    const int64_t oh = lsi_conv2d_extent(s, s->h, 1);
    const int64_t ow = lsi_conv2d_extent(s, s->w, 1);
    const int64_t end = first + count;
    while (first < end) {
        const int64_t row = first / ow, x = first % ow;
        const int64_t y = row / oh * s->h + row % oh * s->stride;
        const int64_t run = smaller_of(ow - x, end - first);
        const float *from = src + (y * s->w + x * s->stride) * s->c;
        for (int64_t i = 0; i < run; i++) {
            memcpy(to, from, (size_t)channels * sizeof(float));
            to += channels;
            from += s->stride * s->c;
        }
        first += run;
    }
}

static void gather_pixels(void *context, size_t task, int worker)
{
    (void)worker;
    const pixels *p = context;
    const int64_t begin = (int64_t)task * TASK_PIXELS;
    lsi_portable_pointwise_gather(
        p->s, p->dense + begin * p->s->c, p->src, p->first + begin,
        smaller_of(TASK_PIXELS, p->count - begin), p->s->c);
}

/* The matrix of the group's pixels. */
static const float *gather(pixels *p)
{
    if (p->s->stride == 1)
        return p->src + p->first * p->s->c;
    lsi_parallel_tasks((size_t)((p->count + TASK_PIXELS - 1) / TASK_PIXELS),
                       gather_pixels, p);
    return p->dense;
}

/* A row of the source's gradient, with zeros where no filter reaches. */
static void scatter_row(void *context, size_t row, int worker)
{
    (void)worker;
    const pixels *p = context;
    const lsi_conv2d_shape *s = p->s;
    const int64_t image = (int64_t)row / s->h, y = (int64_t)row % s->h;
    const int64_t before = p->first / (p->oh * p->ow) * s->h + (int64_t)row;
    float *to = p->dsrc + before * s->w * s->c;
    if (y % s->stride != 0) {
        memset(to, 0, (size_t)s->w * pixel_bytes(p));
        return;
    }
    const float *from =
        p->dense + (image * p->oh + y / s->stride) * p->ow * s->c;
    for (int64_t x = 0; x < s->w; x += s->stride) {
        const int64_t zeros = smaller_of(s->stride, s->w - x) - 1;
        memcpy(to + x * s->c, from, pixel_bytes(p));
        memset(to + (x + 1) * s->c, 0, (size_t)zeros * pixel_bytes(p));
        from += s->c;
    }
}

static void scatter(pixels *p)
{
    const int64_t images = p->count / (p->oh * p->ow);
    if (p->s->stride > 1)
        lsi_parallel_tasks((size_t)(images * p->s->h), scatter_row, p);
}

/* ---- passes -------------------------------------------------------------- */

static lsi_gemm_shape product_of(int64_t m, int64_t n, int64_t k)
{
    return (lsi_gemm_shape){.m = m,
                            .n = n,
                            .k = k,
                            .lda = k,
                            .ldb = n,
                            .ldc = n,
                            .ab_dtype = LS_F32,
                            .c_dtype = LS_F32};
}

ls_status lsi_portable_pointwise_forward(const lsi_conv2d_shape *s, float *dst,
                                         const float *src, const float *weight,
                                         const float *bias_or_null)
{
    const lsi_gemm_batch alone = {.ndim = 0};
    pixels p = {.s = s, .src = src};
    LS_TRY(open_pixels(&p, 1));
    while (next_group(&p) > 0) {
        lsi_gemm_shape shape = product_of(p.count, s->o, s->c);
        shape.b_transposed = true;
        shape.ldb = s->c;
        LS_TRY(lsi_portable_gemm(&shape, &alone, dst + p.first * s->o,
                                 gather(&p), weight, bias_or_null));
    }
    return LS_OK;
}

/* In groups of images, because their rows have zeros between them. */
ls_status lsi_portable_pointwise_backward_data(const lsi_conv2d_shape *s,
                                               float *dsrc, const float *ddst,
                                               const float *weight)
{
    const lsi_gemm_batch alone = {.ndim = 0};
    pixels p = {.s = s, .dsrc = dsrc};
    LS_TRY(open_pixels(&p, lsi_conv2d_extent(s, s->h, 1) *
                               lsi_conv2d_extent(s, s->w, 1)));
    while (next_group(&p) > 0) {
        const lsi_gemm_shape shape = product_of(p.count, s->c, s->o);
        LS_TRY(lsi_portable_gemm(&shape, &alone,
                                 s->stride == 1 ? dsrc : p.dense,
                                 ddst + p.first * s->o, weight, NULL));
        scatter(&p);
    }
    return LS_OK;
}
