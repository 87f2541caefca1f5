/*
 * The gradient of the weights of 1x1 filters in portable bits, as a product.
 * Rows are channels of the source, columns are filters, k runs over pixels. A
 * task has some rows and columns, and goes through all pixels by itself: it
 * copies a block of them, and reads gradients where they are.
 */
#include "array/compute/gemm_blocks.h"
#include "array/compute/padded_rows.h"
#include "array/compute/plan_cache.h"
#include "array/compute/portable_pointwise.h"
#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "array/kernels/portable.h"
#include "array/kernels/portable_gemm.h"
#include "base/error.h"

enum {
    ROWS = 256,         /* channels that are copied at once */
    IN_PLACE_ROWS = 64, /* at most, for which gradients are not packed */
    TASK_FILTERS = 16   /* filters of a task that writes gradients */
};

typedef struct weight_pass {
    const lsi_conv2d_shape *s;
    const lsi_portable_ops *ops;
    const float *src, *ddst;
    float *dweight;
    bool accumulate;
    size_t pixels, c, o;
    size_t down, across; /* parts of the channels and of the filters */
    float *sums;         /* (c, o) */
    char *scratch;       /* of each worker, one after another */
} weight_pass;

/* A block of pixels of some channels, and the filters that it meets. */
typedef struct pixel_block {
    lsi_range channels, filters, pixels;
    float *dense, *a, *b;
} pixel_block;

static size_t block_bytes(size_t lanes)
{
    return lsi_carved((lanes * LSI_PORTABLE_BLOCK + LSI_PORTABLE_SLACK) *
                      sizeof(float));
}

static size_t worker_bytes(const weight_pass *p)
{
    return 2 * block_bytes(ROWS) + block_bytes(p->ops->lanes);
}

static void pack_channels(const weight_pass *p, const pixel_block *k)
{
    const size_t channels = lsi_range_size(k->channels);
    const lsi_range terms = {0, lsi_range_size(k->pixels)};
    float *to = k->a;
    lsi_portable_pointwise_gather(p->s, k->dense, p->src + k->channels.begin,
                                  (int64_t)k->pixels.begin, (int64_t)terms.end,
                                  (int64_t)channels);
    for (size_t i = 0; i < channels; i += p->ops->rows) {
        const lsi_range lanes = lsi_blocks_next(i, p->ops->rows, channels);
        const lsi_strip strip =
            lsi_blocks_strip(k->dense, (int64_t)channels, true, lanes, terms);
        p->ops->pack(to, &strip, lsi_range_size(lanes));
        to += lsi_range_size(lanes) * terms.end;
    }
}

static lsi_strip gradients(const weight_pass *p, size_t filter, size_t end,
                           lsi_range pixels)
{
    return lsi_blocks_strip(p->ddst, (int64_t)p->o, true,
                            lsi_blocks_next(filter, p->ops->lanes, end),
                            pixels);
}

/* The gradients that are multiplied after these. */
static lsi_fetch fetch_next(const weight_pass *p, const pixel_block *k,
                            size_t filter)
{
    const bool here = filter < k->filters.end;
    const lsi_strip strip = gradients(
        p, here ? filter : k->filters.begin, k->filters.end,
        here ? k->pixels
             : lsi_blocks_next(k->pixels.end, LSI_PORTABLE_BLOCK, p->pixels));
    return lsi_blocks_fetch(&strip);
}

static void multiply_filters(const weight_pass *p, const pixel_block *k,
                             size_t filter)
{
    const lsi_strip strip = gradients(p, filter, k->filters.end, k->pixels);
    const bool in_place = strip.lanes == p->ops->lanes &&
                          lsi_range_size(k->channels) <= IN_PLACE_ROWS;
    float *const c = p->sums + k->channels.begin * p->o + filter;
    const lsi_portable_product product = {
        .a = k->a,
        .b = in_place ? strip.data : k->b,
        .ld_b = in_place ? strip.ld : p->ops->lanes,
        .rows = lsi_range_size(k->channels),
        .cols = strip.lanes,
        .terms = strip.terms,
        .c = c,
        .ldc = p->o,
        .totals = k->pixels.begin > 0 ? c : NULL,
        .ld_totals = p->o,
        .fetch = fetch_next(p, k, filter + p->ops->lanes)};
    if (!in_place)
        p->ops->pack(k->b, &strip, p->ops->lanes);
    p->ops->multiply(&product);
}

/* All pixels of some channels; without pixels, a block of none. */
static void add_channels(const weight_pass *p, pixel_block *k)
{
    k->pixels = (lsi_range){0, 0};
    do {
        k->pixels =
            lsi_blocks_next(k->pixels.end, LSI_PORTABLE_BLOCK, p->pixels);
        pack_channels(p, k);
        for (size_t f = k->filters.begin; f < k->filters.end;
             f += p->ops->lanes)
            multiply_filters(p, k, f);
    } while (k->pixels.end < p->pixels);
}

static void add_part(void *context, size_t part, int worker)
{
    const weight_pass *p = context;
    const lsi_range channels =
        lsi_partition_aligned(p->c, p->down, part / p->across, p->ops->rows);
    char *next = p->scratch + (size_t)worker * worker_bytes(p);
    pixel_block k = {.filters = lsi_partition_aligned(
                         p->o, p->across, part % p->across, p->ops->lanes)};
    k.dense = lsi_carve(&next, block_bytes(ROWS));
    k.a = lsi_carve(&next, block_bytes(ROWS));
    k.b = lsi_carve(&next, block_bytes(p->ops->lanes));
    for (size_t i = channels.begin; i < channels.end; i += ROWS) {
        k.channels = lsi_blocks_next(i, ROWS, channels.end);
        add_channels(p, &k);
    }
}

static void put_filters(void *context, size_t task, int worker)
{
    (void)worker;
    const weight_pass *p = context;
    const lsi_range filters =
        lsi_blocks_next(task * TASK_FILTERS, TASK_FILTERS, p->o);
    for (size_t i = 0; i < p->c; i++)
        for (size_t f = filters.begin; f < filters.end; f++) {
            float *to = p->dweight + f * p->c + i;
            const float x = p->sums[i * p->o + f];
            *to = p->accumulate ? *to + x : x;
        }
}

ls_status lsi_portable_pointwise_backward_weight(const lsi_conv2d_shape *s,
                                                 float *dweight,
                                                 const float *src,
                                                 const float *ddst,
                                                 bool accumulate)
{
    static const lsi_plan_kind kind =
        LSI_WORKSPACE_KIND("memory of a convolution's gradient");
    const int64_t oh = lsi_conv2d_extent(s, s->h, 1);
    const int64_t ow = lsi_conv2d_extent(s, s->w, 1);
    const lsi_gemm_shape product = {.m = s->c, .n = s->o};
    const size_t threads = (size_t)lsi_threads();
    weight_pass p = {.s = s,
                     .ops = lsi_kernels_get()->portable,
                     .src = src,
                     .ddst = ddst,
                     .dweight = dweight,
                     .accumulate = accumulate,
                     .pixels = (size_t)(s->n * oh * ow),
                     .c = (size_t)s->c,
                     .o = (size_t)s->o};
    const size_t sums = lsi_carved(p.c * p.o * sizeof(float));
    void *memory;
    p.down = lsi_blocks_down(&product, threads);
    p.across = threads / p.down;
    LS_TRY(lsi_workspace_get(&kind, sums + threads * worker_bytes(&p),
                             kind.name, &memory));
    p.sums = memory;
    p.scratch = (char *)memory + sums;
    lsi_parallel_tasks(threads, add_part, &p);
    lsi_parallel_tasks(lsi_blocks_count(p.o, TASK_FILTERS), put_filters, &p);
    return LS_OK;
}
