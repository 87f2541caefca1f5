/* Pooling and reorders: the kernels of the table, spread over threads. */
#include "base/error.h"
#include "base/threads.h"
#include "kernels/kernels.h"
#include "kernels/layout.h"

typedef struct pool_call {
    const lsi_kernels *kernels;
    const lsi_pool2d *shape;
    float *y; /* what is written */
    const float *x;
    uint8_t *index_out;
    const uint8_t *index_in;
} pool_call;

static void forward_range(void *context, size_t begin, size_t end)
{
    const pool_call *call = context;
    call->kernels->max_pool2d_forward(call->y, call->index_out, call->x,
                                      call->shape, begin, end);
}

static void backward_range(void *context, size_t begin, size_t end)
{
    const pool_call *call = context;
    call->kernels->max_pool2d_backward(call->y, call->x, call->index_in,
                                       call->shape, begin, end);
}

static size_t slabs(const lsi_pool2d *s)
{
    return (size_t)(s->n * (s->c / lsi_layout_block(s->src_layout, s->c)));
}

void lsi_max_pool2d_forward(const lsi_pool2d *shape, float *dst, uint8_t *index,
                            const float *src)
{
    pool_call call = {.kernels = lsi_kernels_get(),
                      .shape = shape,
                      .y = dst,
                      .x = src,
                      .index_out = index};
    if (shape->c > 0)
        lsi_parallel_for(slabs(shape), 1, forward_range, &call);
}

void lsi_max_pool2d_backward(const lsi_pool2d *shape, float *dsrc,
                             const float *ddst, const uint8_t *index)
{
    pool_call call = {.kernels = lsi_kernels_get(),
                      .shape = shape,
                      .y = dsrc,
                      .x = ddst,
                      .index_in = index};
    if (shape->c > 0)
        lsi_parallel_for(slabs(shape), 1, backward_range, &call);
}

static ls_status check_block(int64_t block, int64_t c)
{
    if (c % block == 0)
        return LS_OK;
    return lsi_fail(LS_ERR_SHAPE,
                    "%lld channels do not fill a layout of blocks of %lld",
                    (long long)c, (long long)block);
}

ls_status lsi_reorder(float *dst, lsi_layout dst_layout, const float *src,
                      lsi_layout src_layout, int64_t n, int64_t c, int64_t h,
                      int64_t w)
{
    if (n == 0 || c == 0)
        return LS_OK;
    const int64_t to = lsi_layout_block(dst_layout, c);
    const int64_t from = lsi_layout_block(src_layout, c);
    LS_TRY(check_block(to, c));
    LS_TRY(check_block(from, c));
    for (int64_t i = 0; i < n; i++)
        lsi_kernels_get()->reorder(dst + i * c * h * w, to, src + i * c * h * w,
                                   from, c, h * w);
    return LS_OK;
}
