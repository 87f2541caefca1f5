/*
 * Tiles of the result are divided among threads as they become free: each is
 * computed by itself. A gradient of filters goes through the tiles in
 * stretches, so that the order of its sums depends on the shape alone.
 */
#include "array/compute/winograd.h"

#include "array/compute/onednn/runtime.h"
#include "array/compute/threads.h"
#include "array/compute/winograd_conv.h"
#include "array/kernels/kernels.h"
#include "base/error.h"

enum {
    MIN_TILES = 64, /* that pay for the transforms of the filters */
    BLOCK = 16,
    GROUP = 16 /* tiles that a thread transforms at a time, for the gradient */
};

static const lsi_winograd_ops *ops(void)
{
    return lsi_kernels_get()->winograd;
}

static bool suits(const lsi_conv2d_shape *s, lsi_layout src, lsi_layout dst)
{
    if (ops() == NULL || s->dtype != LS_BF16 || s->bias ||
        src != LSI_LAYOUT_BLOCKED_16 || dst != LSI_LAYOUT_BLOCKED_16)
        return false;
    if (!lsi_winograd_is_3x3(s) || s->c % LSI_WINOGRAD_LANES != 0 ||
        s->o % LSI_WINOGRAD_LANES != 0)
        return false;
    const lsi_winograd_conv conv = lsi_winograd_conv_of(s);
    return lsi_winograd_tiles(&conv) >= MIN_TILES;
}

static size_t align(size_t bytes)
{
    return lsi_winograd_parts(bytes, 64) * 64;
}

/* ---- images -------------------------------------------------------------- */

typedef struct images_run {
    lsi_winograd_images images;
    int64_t o, c; /* of the filters as they are stored */
    bool turned;
    const uint16_t *weight;
    uint16_t *u;
    char *scratch; /* of each worker, one after another */
    size_t worker_bytes;
} images_run;

static void transform_filters(void *context, size_t task, int worker)
{
    (void)worker;
    const images_run *r = context;
    const size_t blocks = (size_t)r->c / BLOCK;
    ops()->filters(r->u, r->weight, r->o, r->c, r->turned, task / blocks,
                   task % blocks);
}

static void make_tiles(void *context, size_t task, int worker)
{
    const images_run *r = context;
    const size_t begin = task * LSI_WINOGRAD_TILES;
    const size_t all = lsi_winograd_tiles(&r->images.conv);
    const size_t end = begin + LSI_WINOGRAD_TILES;
    ops()->images(&r->images, begin, end < all ? end : all,
                  r->scratch + (size_t)worker * r->worker_bytes);
}

static ls_status make_images(images_run *r)
{
    char *scratch;
    const size_t u = align((size_t)LSI_WINOGRAD_POINTS * (size_t)(r->o * r->c) *
                           sizeof *r->u);
    r->worker_bytes = align(ops()->images_scratch(&r->images.conv));
    LS_TRY(lsi_onednn_reserve(u + (size_t)lsi_threads() * r->worker_bytes,
                              &scratch));
    r->u = (uint16_t *)(void *)scratch;
    r->images.u = r->u;
    r->scratch = scratch + u;
    lsi_parallel_tasks((size_t)(r->o / BLOCK) * (size_t)(r->c / BLOCK),
                       transform_filters, r);
    lsi_parallel_tasks(lsi_winograd_parts(lsi_winograd_tiles(&r->images.conv),
                                          LSI_WINOGRAD_TILES),
                       make_tiles, r);
    return LS_OK;
}

static ls_status forward(const lsi_conv2d_shape *s, void *dst, const void *src,
                         const void *weight, const float *bias_or_null)
{
    (void)bias_or_null; /* such plans have none */
    images_run r = {.images = {.conv = lsi_winograd_conv_of(s),
                               .src = src,
                               .dst = dst,
                               .relu = s->relu},
                    .o = s->o,
                    .c = s->c,
                    .weight = weight};
    return make_images(&r);
}

/* The gradient is a convolution itself, by the filters turned round. */
static ls_status backward_data(const lsi_conv2d_shape *s, void *dsrc,
                               const void *ddst, const void *weight)
{
    images_run r = {.images = {.conv = lsi_winograd_turned_conv(s),
                               .src = ddst,
                               .dst = dsrc,
                               .dst_is_f32 = s->dsrc_dtype == LS_F32},
                    .o = s->o,
                    .c = s->c,
                    .turned = true,
                    .weight = weight};
    return make_images(&r);
}

/* ---- filters ------------------------------------------------------------- */

typedef struct gradient_run {
    lsi_winograd_gradient gradient;
    size_t first; /* tile of the stretch */
    float *dweight;
    bool accumulate;
} gradient_run;

static void transform_tiles(void *context, size_t task, int worker)
{
    (void)worker;
    const gradient_run *r = context;
    ops()->points(&r->gradient, r->first, task * GROUP, (task + 1) * GROUP);
}

static void add_up(void *context, size_t task, int worker)
{
    (void)worker;
    const gradient_run *r = context;
    ops()->add_up(&r->gradient, r->first, task % LSI_WINOGRAD_POINTS,
                  task / LSI_WINOGRAD_POINTS);
}

static void finish_filters(void *context, size_t task, int worker)
{
    (void)worker;
    const gradient_run *r = context;
    const size_t blocks = (size_t)r->gradient.conv.c / BLOCK;
    ops()->gradient(r->dweight, &r->gradient, task / blocks, task % blocks,
                    r->accumulate);
}

static ls_status backward_weight(const lsi_conv2d_shape *s, float *dweight,
                                 float *dbias_or_null, const void *src,
                                 const void *ddst, bool accumulate)
{
    (void)dbias_or_null;
    gradient_run r = {
        .gradient = {.conv = lsi_winograd_conv_of(s), .src = src, .ddst = ddst},
        .dweight = dweight,
        .accumulate = accumulate};
    lsi_winograd_gradient *g = &r.gradient;
    const size_t c = (size_t)s->c, o = (size_t)s->o;
    const size_t v = ops()->v_elements(&g->conv);
    const size_t z = ops()->z_elements(&g->conv);
    char *scratch;
    LS_TRY(lsi_onednn_reserve((v + z) * sizeof(uint16_t) +
                                  LSI_WINOGRAD_POINTS * c * o * sizeof(float),
                              &scratch));
    g->v = (uint16_t *)(void *)scratch;
    g->z = g->v + v;
    g->sums = (float *)(void *)(g->z + z);
    const size_t tiles = lsi_winograd_tiles(&g->conv);
    for (r.first = 0; r.first < tiles; r.first += LSI_WINOGRAD_STRETCH) {
        const size_t left = tiles - r.first;
        const size_t now =
            left < LSI_WINOGRAD_STRETCH ? left : LSI_WINOGRAD_STRETCH;
        lsi_parallel_tasks(lsi_winograd_parts(now, GROUP), transform_tiles, &r);
        lsi_parallel_tasks(LSI_WINOGRAD_POINTS * o / LSI_WINOGRAD_LANES, add_up,
                           &r);
    }
    lsi_parallel_tasks((o / BLOCK) * (c / BLOCK), finish_filters, &r);
    return LS_OK;
}

static const lsi_winograd_passes passes = {forward, backward_data,
                                           backward_weight};

const lsi_winograd_passes *lsi_winograd_bf16(const lsi_conv2d_shape *shape,
                                             lsi_layout src, lsi_layout dst)
{
    return suits(shape, src, dst) ? &passes : NULL;
}
