/* Pooling and reorders: the kernels of the table, spread over threads. */
#include "array/compute/dense.h"
#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "array/kernels/layout.h"
#include "array/kernels/ref/ref.h"
#include "base/error.h"
#include "observe/spans.h"

typedef struct pool_call {
    const lsi_kernels *kernels;
    const lsi_pool2d *shape;
    float *y; /* the result */
    const float *x;
    uint8_t *index_out;
    const uint8_t *index_in;
    bool backward;
} pool_call;

static void pool_range(void *context, size_t begin, size_t end)
{
    const pool_call *c = context;
    const lsi_kernels *k = c->kernels;
    if (c->backward)
        k->max_pool2d_backward(c->y, c->x, c->index_in, c->shape, begin, end);
    else
        k->max_pool2d_forward(c->y, c->index_out, c->x, c->shape, begin, end);
}

static void run_pool(pool_call call)
{
    const lsi_pool2d *s = call.shape;
    call.kernels = lsi_kernels_get();
    if (s->c > 0)
        lsi_parallel_for(
            (size_t)(s->n * (s->c / lsi_layout_block(s->src_layout, s->c))), 1,
            pool_range, &call);
}

void lsi_max_pool2d_forward(const lsi_pool2d *shape, float *dst, uint8_t *index,
                            const float *src)
{
    LSI_SPAN(KERNEL, "max_pool2d",
             5 * (uint64_t)(shape->n * shape->c * shape->h * shape->w), 0);
    run_pool(
        (pool_call){.shape = shape, .y = dst, .x = src, .index_out = index});
}

void lsi_max_pool2d_backward(const lsi_pool2d *shape, float *dsrc,
                             const float *ddst, const uint8_t *index)
{
    LSI_SPAN(KERNEL, "max_pool2d_backward",
             5 * (uint64_t)(shape->n * shape->c * shape->h * shape->w), 0);
    run_pool((pool_call){.shape = shape,
                         .y = dsrc,
                         .x = ddst,
                         .index_in = index,
                         .backward = true});
}

/* ---- windows that may overlap -------------------------------------------- */

typedef struct window_call {
    const lsi_kernels *kernels;
    const lsi_window2d *shape;
    float *y; /* the result */
    const float *x;
    uint8_t *index_out; /* of a maximum, forward */
    const uint8_t *index_in;
    bool backward;
} window_call;

static void window_range(void *context, size_t begin, size_t end)
{
    const window_call *c = context;
    const lsi_kernels *k = c->kernels;
    if (c->index_out != NULL)
        k->max_window2d(c->y, c->index_out, c->x, c->shape, begin, end);
    else if (c->index_in != NULL)
        k->max_window2d_backward(c->y, c->x, c->index_in, c->shape, begin, end);
    else if (c->backward)
        k->avg_window2d_backward(c->y, c->x, c->shape, begin, end);
    else
        k->avg_window2d(c->y, c->x, c->shape, begin, end);
}

static void run_windows(window_call call)
{
    const lsi_window2d *s = call.shape;
    call.kernels = lsi_kernels_get();
    if (s->c > 0)
        lsi_parallel_for(
            (size_t)(s->n * (s->c / lsi_layout_block(s->layout, s->c))), 1,
            window_range, &call);
}

void lsi_avg_window2d(const lsi_window2d *shape, float *dst, const float *src)
{
    LSI_SPAN(KERNEL, "avg_pool2d",
             5 * (uint64_t)(shape->n * shape->c * shape->h * shape->w), 0);
    run_windows((window_call){.shape = shape, .y = dst, .x = src});
}

void lsi_avg_window2d_backward(const lsi_window2d *shape, float *dsrc,
                               const float *ddst)
{
    LSI_SPAN(KERNEL, "avg_pool2d_backward",
             5 * (uint64_t)(shape->n * shape->c * shape->h * shape->w), 0);
    run_windows(
        (window_call){.shape = shape, .y = dsrc, .x = ddst, .backward = true});
}

void lsi_max_window2d(const lsi_window2d *shape, float *dst, uint8_t *index,
                      const float *src)
{
    LSI_SPAN(KERNEL, "max_pool2d",
             5 * (uint64_t)(shape->n * shape->c * shape->h * shape->w), 0);
    run_windows(
        (window_call){.shape = shape, .y = dst, .x = src, .index_out = index});
}

void lsi_max_window2d_backward(const lsi_window2d *shape, float *dsrc,
                               const float *ddst, const uint8_t *index)
{
    LSI_SPAN(KERNEL, "max_pool2d_backward",
             5 * (uint64_t)(shape->n * shape->c * shape->h * shape->w), 0);
    run_windows(
        (window_call){.shape = shape, .y = dsrc, .x = ddst, .index_in = index});
}

/* ---- reorders ------------------------------------------------------------ */

static ls_status check_block(int64_t block, int64_t c)
{
    if (c % block == 0)
        return LS_OK;
    return lsi_fail(LS_ERR_SHAPE,
                    "the number of channels (%lld) is not a multiple of the "
                    "layout's block size (%lld)",
                    (long long)c, (long long)block);
}

typedef struct reorder_call {
    const lsi_kernels *kernels;
    void *dst;
    const void *src;
    bool half;
    int64_t dst_block, src_block, c, pixels;
} reorder_call;

static void reorder_images(void *context, size_t begin, size_t end)
{
    const reorder_call *call = context;
    const size_t image = (size_t)(call->c * call->pixels);
    for (size_t i = begin; i < end; i++) {
        if (call->half)
            lsi_ref_reorder_half((uint16_t *)call->dst + i * image,
                                 call->dst_block,
                                 (const uint16_t *)call->src + i * image,
                                 call->src_block, call->c, call->pixels);
        else
            call->kernels->reorder((float *)call->dst + i * image,
                                   call->dst_block,
                                   (const float *)call->src + i * image,
                                   call->src_block, call->c, call->pixels);
    }
}

ls_status lsi_reorder(void *dst, lsi_layout dst_layout, const void *src,
                      lsi_layout src_layout, ls_dtype dtype,
                      const int64_t shape[4])
{
    LSI_SPAN(KERNEL, "reorder",
             2 * (size_t)(shape[0] * shape[1] * shape[2] * shape[3]) *
                 ls_dtype_size(dtype),
             0);
    const int64_t n = shape[0], c = shape[1];
    if (n == 0 || c == 0)
        return LS_OK;
    reorder_call call = {.kernels = lsi_kernels_get(),
                         .dst = dst,
                         .src = src,
                         .half = dtype != LS_F32,
                         .dst_block = lsi_layout_block(dst_layout, c),
                         .src_block = lsi_layout_block(src_layout, c),
                         .c = c,
                         .pixels = shape[2] * shape[3]};
    LS_TRY(check_block(call.dst_block, c));
    LS_TRY(check_block(call.src_block, c));
    lsi_parallel_for((size_t)n, 1, reorder_images, &call);
    return LS_OK;
}
