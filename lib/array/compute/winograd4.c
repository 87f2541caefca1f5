/*
 * Tiles of the result are divided among threads as they become free: each is
 * computed by itself. A gradient of filters goes through the tiles in
 * stretches, so that the order of its sums depends on the shape alone.
 */
#include "array/compute/array.h"
#include "array/compute/onednn/scratch.h"
#include "array/compute/threads.h"
#include "array/compute/winograd.h"
#include "array/compute/winograd_conv.h"
#include "array/kernels/kernels.h"
#include "base/bits.h"
#include "base/error.h"

enum {
    MIN_TILES = 32,     /* that share the transforms of the filters */
    MIN_WEIGHTS = 1024, /* c * o that pay for the transforms of tiles */
    CHANNELS = 32,      /* divide those of portable bits; lanes divide it */
    MOST_TILES = 64,    /* of a task: the filters' points are read for each */
    GROUP = 8           /* tiles that a thread transforms, for the gradient */
};

/* The filters of a plan have at most this many points. */
static const size_t max_filter_bytes = (size_t)128 << 20;

static const lsi_winograd4_ops *ops(void)
{
    return lsi_kernels_get()->winograd4;
}

static size_t filter_floats(const lsi_winograd_conv *conv)
{
    return LSI_WINOGRAD4_POINTS * (size_t)(conv->c * conv->o);
}

/* Tiles of a task: as many in each, and as many tasks for each thread. */
static size_t task_tiles(const lsi_winograd_conv *conv)
{
    const size_t tiles = lsi_winograd4_tiles(conv);
    const size_t threads = (size_t)lsi_threads();
    const size_t tasks =
        lsi_winograd_parts(lsi_winograd_parts(tiles, MOST_TILES), threads);
    return lsi_winograd_parts(tiles, tasks * threads);
}

static size_t images_floats(const lsi_winograd_conv *conv)
{
    return filter_floats(conv) +
           (size_t)lsi_threads() * ops()->room(conv, task_tiles(conv)).images;
}

static size_t gradient_floats(const lsi_winograd_conv *conv)
{
    const lsi_winograd4_room room = ops()->room(conv, 1);
    return room.v + room.z + room.sums;
}

/* Images of portable bits are channels last. */
static lsi_winograd_conv conv_of(const lsi_conv2d_shape *s)
{
    lsi_winograd_conv conv = lsi_winograd_conv_of(s);
    conv.channels_last = lsi_bits_are_portable();
    return conv;
}

static bool suits(const lsi_conv2d_shape *s, lsi_layout src, lsi_layout dst)
{
    if (ops()->layout == LSI_LAYOUT_PLAIN || s->dtype != LS_F32 ||
        s->dsrc_dtype != LS_F32 || src != ops()->layout || dst != ops()->layout)
        return false;
    if (!lsi_winograd_is_3x3(s) || s->c % ops()->lanes != 0 ||
        s->o % ops()->lanes != 0)
        return false;
    const lsi_winograd_conv conv = lsi_winograd_conv_of(s);
    return s->c * s->o >= MIN_WEIGHTS &&
           lsi_winograd4_tiles(&conv) >= MIN_TILES &&
           filter_floats(&conv) * sizeof(float) <= max_filter_bytes;
}

/* ---- images -------------------------------------------------------------- */

typedef struct images_run {
    lsi_winograd4_images images;
    int64_t o, c; /* of the filters as they are stored */
    bool turned;
    const float *weight;
    float *u, *scratch; /* scratch of each worker, one after another */
    size_t tiles, worker_floats;
} images_run;

static void transform_filters(void *context, size_t task, int worker)
{
    (void)worker;
    const images_run *r = context;
    const size_t blocks = 2 * (size_t)(r->images.conv.c / ops()->lanes);
    ops()->filters(r->u, r->weight, r->o, r->c, r->turned, task / blocks,
                   task % blocks);
}

static void make_tiles(void *context, size_t task, int worker)
{
    const images_run *r = context;
    const size_t begin = task * r->tiles, end = begin + r->tiles;
    const size_t all = lsi_winograd4_tiles(&r->images.conv);
    ops()->images(&r->images, begin, end < all ? end : all,
                  r->scratch + (size_t)worker * r->worker_floats);
}

static ls_status make_images(images_run *r)
{
    const lsi_winograd_conv *const conv = &r->images.conv;
    char *scratch;
    LS_TRY(lsi_onednn_reserve(images_floats(conv) * sizeof(float), &scratch));
    r->u = (float *)(void *)scratch;
    r->images.u = r->u;
    r->scratch = r->u + filter_floats(conv);
    r->tiles = task_tiles(conv);
    r->worker_floats = ops()->room(conv, r->tiles).images;
    const int64_t lanes = ops()->lanes;
    lsi_parallel_tasks((size_t)(2 * (conv->o / lanes) * (conv->c / lanes)),
                       transform_filters, r);
    lsi_parallel_tasks(lsi_winograd_parts(lsi_winograd4_tiles(conv), r->tiles),
                       make_tiles, r);
    return LS_OK;
}

static ls_status forward(const lsi_conv2d_shape *s, void *dst, const void *src,
                         const void *weight, const float *bias_or_null)
{
    images_run r = {.images = {.conv = conv_of(s),
                               .src = src,
                               .dst = dst,
                               .bias_or_null = bias_or_null,
                               .relu = s->relu},
                    .o = s->o,
                    .c = s->c,
                    .weight = weight};
    return make_images(&r);
}

static ls_status backward_data(const lsi_conv2d_shape *s, void *dsrc,
                               const void *ddst, const void *weight)
{
    images_run r = {.images = {.conv = lsi_winograd_turned_conv(s),
                               .src = ddst,
                               .dst = dsrc},
                    .o = s->o,
                    .c = s->c,
                    .turned = true,
                    .weight = weight};
    r.images.conv.channels_last = lsi_bits_are_portable();
    return make_images(&r);
}

/* ---- filters ------------------------------------------------------------- */

typedef struct gradient_run {
    lsi_winograd4_gradient gradient;
    size_t first, count; /* tiles of the stretch */
    float *dweight, *dbias;
    bool accumulate;
} gradient_run;

static void transform_tiles(void *context, size_t task, int worker)
{
    (void)worker;
    const gradient_run *r = context;
    const size_t begin = task * GROUP, end = begin + GROUP;
    ops()->points(&r->gradient, r->first, begin,
                  end < r->count ? end : r->count);
}

static void add_up(void *context, size_t task, int worker)
{
    (void)worker;
    const gradient_run *r = context;
    const size_t panels = (size_t)(r->gradient.conv.o / ops()->lanes);
    ops()->add_up(&r->gradient, r->first, r->count, task / panels,
                  task % panels);
}

static void finish_filters(void *context, size_t task, int worker)
{
    (void)worker;
    const gradient_run *r = context;
    const size_t blocks = 2 * (size_t)(r->gradient.conv.c / ops()->lanes);
    ops()->gradient(r->dweight, &r->gradient, task / blocks, task % blocks,
                    r->accumulate);
}

static void sum_bias(void *context, size_t task, int worker)
{
    (void)worker;
    const gradient_run *r = context;
    ops()->bias(r->dbias, &r->gradient, task, r->accumulate);
}

static ls_status backward_weight(const lsi_conv2d_shape *s, float *dweight,
                                 float *dbias_or_null, const void *src,
                                 const void *ddst, bool accumulate)
{
    gradient_run r = {
        .gradient = {.conv = conv_of(s), .src = src, .ddst = ddst},
        .dweight = dweight,
        .dbias = dbias_or_null,
        .accumulate = accumulate};
    lsi_winograd4_gradient *const g = &r.gradient;
    const lsi_winograd4_room room = ops()->room(&g->conv, 1);
    const size_t c_panels = (size_t)(s->c / ops()->lanes);
    const size_t o_panels = (size_t)(s->o / ops()->lanes);
    char *scratch;
    LS_TRY(lsi_onednn_reserve(gradient_floats(&g->conv) * sizeof(float),
                              &scratch));
    g->v = (float *)(void *)scratch;
    g->z = g->v + room.v;
    g->sums = g->z + room.z;
    const size_t tiles = lsi_winograd4_tiles(&g->conv);
    for (r.first = 0; r.first < tiles; r.first += LSI_WINOGRAD4_STRETCH) {
        const size_t left = tiles - r.first;
        r.count = left < LSI_WINOGRAD4_STRETCH ? left : LSI_WINOGRAD4_STRETCH;
        lsi_parallel_tasks(lsi_winograd_parts(r.count, GROUP), transform_tiles,
                           &r);
        lsi_parallel_tasks(LSI_WINOGRAD4_POINTS * o_panels, add_up, &r);
    }
    lsi_parallel_tasks(4 * o_panels * c_panels, finish_filters, &r);
    if (dbias_or_null && g->conv.channels_last)
        lsi_array_column_sum(dbias_or_null, ddst,
                             (size_t)(s->n * g->conv.oh * g->conv.ow),
                             (size_t)s->o, accumulate);
    else if (dbias_or_null)
        lsi_parallel_tasks(2 * o_panels, sum_bias, &r);
    return LS_OK;
}

static const lsi_winograd_passes passes = {forward, backward_data,
                                           backward_weight};

const lsi_winograd_passes *lsi_winograd_f32(const lsi_conv2d_shape *shape,
                                            lsi_layout src, lsi_layout dst)
{
    return suits(shape, src, dst) ? &passes : NULL;
}

const lsi_winograd_passes *lsi_winograd_portable(const lsi_conv2d_shape *s)
{
    const lsi_winograd_conv conv = lsi_winograd_conv_of(s);
    return lsi_winograd_is_3x3(s) && s->n > 0 && s->c % CHANNELS == 0 &&
                   s->o % CHANNELS == 0 &&
                   filter_floats(&conv) * sizeof(float) <= max_filter_bytes
               ? &passes
               : NULL;
}
