/*
 * Passes that make images: a task is some rows of the result. It copies the
 * rows that they read, with zeros around them, and multiplies them by panels of
 * filters. Of a gradient through a stride s, the pixels of each remainder of
 * their rows and columns by s are a pass with some of the taps.
 */
#include "array/compute/portable_conv.h"

#include "array/compute/padded_rows.h"
#include "array/compute/plan_cache.h"
#include "array/compute/portable_pointwise.h"
#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "array/kernels/portable.h"
#include "base/error.h"

enum {
    MOST_PIXELS = 512,     /* of a task */
    MOST_FLOATS = 1 << 17, /* that a task copies */
    PACKED_CHANNELS = 16   /* that are packed for all filters of a panel */
};

/* The taps of a filter in one direction, in the order of the pixels. */
typedef struct tap_line {
    int64_t count;
    int64_t first, step; /* places in the filter */
    int64_t apart;       /* pixels from tap to tap */
    int64_t before;      /* pixels of the first tap before the image */
} tap_line;

typedef struct images_pass {
    const float *src, *weight, *bias;
    float *dst;
    bool relu;
    tap_line y, x;
    int64_t taps, filter_width; /* of the whole filter */
    lsi_padded padded;          /* src */
    int64_t stride;             /* pixels of src from pixel to pixel of dst */
    int64_t n, rows, columns;   /* of dst */
    int64_t image_step, row_step, column_step;     /* elements of dst */
    int64_t groups, depth, filters;                /* of a group */
    int64_t group_step, filter_step, channel_step; /* of the weights */

    size_t terms, panels; /* of a group */
    size_t *at;
    float *packed;                         /* (groups, panels, terms, panel) */
    int64_t task_images, task_rows, bands; /* bands of rows of an image */
    char *scratch;
    size_t worker_bytes;
} images_pass;

static int64_t parts_of(int64_t n, int64_t each)
{
    return (n + each - 1) / each;
}

static int64_t smaller_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t span(const tap_line *line)
{
    return line->count > 0 ? (line->count - 1) * line->apart + 1 : 1;
}

/* ---- filters ------------------------------------------------------------- */

static void pack_channels(const images_pass *p, float *to, const float *from,
                          int64_t filters, int64_t begin, int64_t end)
{
    const int64_t panel = (int64_t)lsi_kernels_get()->chains->panel;
    for (int64_t f = 0; f < panel; f++)
        for (int64_t c = begin; c < end; c++) {
            const float *w = from + f * p->filter_step + c * p->channel_step;
            float *out = to + c * panel + f;
            for (int64_t i = 0; i < p->y.count; i++)
                for (int64_t j = 0; j < p->x.count; j++) {
                    const int64_t tap =
                        (p->y.first + i * p->y.step) * p->filter_width +
                        p->x.first + j * p->x.step;
                    *out = f < filters ? w[tap] : 0.0F;
                    out += p->depth * panel;
                }
        }
}

static void pack_panel(void *context, size_t task, int worker)
{
    (void)worker;
    const images_pass *p = context;
    const size_t panel = lsi_kernels_get()->chains->panel;
    const size_t group = task / p->panels;
    const int64_t first = (int64_t)(task % p->panels * panel);
    const float *from =
        p->weight + (int64_t)group * p->group_step + first * p->filter_step;
    for (int64_t c = 0; c < p->depth; c += PACKED_CHANNELS)
        pack_channels(p, p->packed + task * p->terms * panel, from,
                      p->filters - first, c,
                      smaller_of(c + PACKED_CHANNELS, p->depth));
}

/* ---- images -------------------------------------------------------------- */

typedef struct rows_task {
    int64_t image, images, row, rows;
    float *band;
    const float **a;
    float **c;
} rows_task;

static int64_t band_rows(const images_pass *p, int64_t rows)
{
    return (rows - 1) * p->stride + span(&p->y);
}

/* The rows of src that rows of dst of one image read; returns the first. */
static const float *read_rows(const images_pass *p, const rows_task *t,
                              int64_t image, float *band, int64_t *width)
{
    const float *from =
        p->src + image * p->padded.h * p->padded.w * p->padded.c;
    const int64_t first = t->row * p->stride;
    *width = p->padded.w;
    if (lsi_padded_is_bare(&p->padded))
        return lsi_padded_bare(&p->padded, from) +
               first * p->padded.w * p->padded.c;
    *width = p->padded.wide;
    for (int64_t i = 0; i < band_rows(p, t->rows); i++)
        lsi_padded_row(&p->padded, band + i * p->padded.wide * p->padded.c,
                       from, first + i);
    return band;
}

static void place_pixels(const images_pass *p, const rows_task *t)
{
    const float **a = t->a;
    float **c = t->c;
    for (int64_t i = 0; i < t->images; i++) {
        int64_t width;
        const int64_t floats =
            band_rows(p, t->rows) * p->padded.wide * p->padded.c;
        const float *from =
            read_rows(p, t, t->image + i, t->band + i * floats, &width);
        float *to = p->dst + (t->image + i) * p->image_step;
        for (int64_t y = 0; y < t->rows; y++)
            for (int64_t x = 0; x < p->columns; x++) {
                *a++ = from + (y * width + x) * p->stride * p->padded.c;
                *c++ = to + (t->row + y) * p->row_step + x * p->column_step;
            }
    }
}

static void multiply_task(const images_pass *p, const rows_task *t)
{
    const lsi_chain_ops *ops = lsi_kernels_get()->chains;
    lsi_chains run = {.c = t->c, .a = t->a};
    run.rows = (size_t)(t->images * t->rows * p->columns);
    for (size_t i = 0; i < (size_t)p->groups * p->panels; i++) {
        const size_t group = i / p->panels, first = i % p->panels * ops->panel;
        const size_t left = (size_t)p->filters - first;
        run.cols = left < ops->panel ? left : ops->panel;
        run.first_a = group * (size_t)p->depth;
        run.first_c = group * (size_t)p->filters + first;
        run.b = p->packed + i * p->terms * ops->panel;
        run.at = p->at;
        size_t k = p->terms;
        do { /* without terms the sum is 0 */
            run.depth = k < LSI_PORTABLE_BLOCK ? k : LSI_PORTABLE_BLOCK;
            run.add = k < p->terms;
            k -= run.depth;
            run.bias = k == 0 && p->bias ? p->bias + run.first_c : NULL;
            run.relu = k == 0 && p->relu;
            ops->multiply(&run);
            run.at += run.depth;
            run.b += run.depth * ops->panel;
        } while (k > 0);
    }
}

static void make_rows(void *context, size_t task, int worker)
{
    const images_pass *p = context;
    const int64_t band = (int64_t)task % p->bands;
    rows_task t = {.image = (int64_t)task / p->bands * p->task_images,
                   .row = band * p->task_rows};
    t.images = smaller_of(p->task_images, p->n - t.image);
    t.rows = smaller_of(p->task_rows, p->rows - t.row);
    if (t.rows <= 0)
        return;
    const size_t pixels = (size_t)(p->task_images * p->task_rows * p->columns);
    char *next = p->scratch + (size_t)worker * p->worker_bytes;
    t.a = lsi_carve(&next, pixels * sizeof(*t.a));
    t.c = lsi_carve(&next, pixels * sizeof(*t.c));
    t.band = (float *)(void *)next;
    place_pixels(p, &t);
    multiply_task(p, &t);
}

/* ---- the plan of a pass -------------------------------------------------- */

/* Some rows of an image a task, or some images. */
static void divide(images_pass *p)
{
    const int64_t threads = lsi_threads();
    const int64_t line = p->padded.wide * p->padded.c;
    const int64_t fitting = (MOST_FLOATS / line - span(&p->y)) / p->stride + 1;
    int64_t rows = smaller_of(MOST_PIXELS / p->columns, fitting);
    rows = rows < 1 ? 1 : smaller_of(rows, p->rows);
    p->bands = parts_of(p->rows, rows);
    if (p->n * p->bands < threads)
        p->bands = smaller_of(parts_of(threads, p->n), p->rows);
    p->task_rows = parts_of(p->rows, p->bands);
    p->task_images = 1;
    if (p->bands > 1)
        return;
    int64_t images = smaller_of(MOST_PIXELS / (p->rows * p->columns),
                                MOST_FLOATS / (line * band_rows(p, p->rows)));
    images = images < 1 ? 1 : images;
    const int64_t tasks = parts_of(parts_of(p->n, images), threads) * threads;
    p->task_images = parts_of(p->n, tasks);
}

static ls_status reserve(images_pass *p)
{
    static const lsi_plan_kind kind =
        LSI_WORKSPACE_KIND("memory of a convolution");
    const size_t panel = lsi_kernels_get()->chains->panel;
    const int64_t images = p->task_images;
    const size_t pixels = (size_t)(images * p->task_rows * p->columns);
    const int64_t band = lsi_padded_is_bare(&p->padded)
                             ? 0
                             : images * band_rows(p, p->task_rows) *
                                   p->padded.wide * p->padded.c;
    p->worker_bytes = 2 * lsi_carved(pixels * sizeof(float *)) +
                      lsi_carved((size_t)band * sizeof(float));
    const size_t at = p->terms * sizeof(size_t);
    const size_t packed =
        (size_t)p->groups * p->panels * p->terms * panel * sizeof(float);
    const size_t bytes = lsi_carved(at) + lsi_carved(packed) +
                         (size_t)lsi_threads() * p->worker_bytes;
    void *memory;
    LS_TRY(lsi_workspace_get(&kind, bytes, "a convolution", &memory));
    char *next = memory;
    p->at = lsi_carve(&next, at);
    p->packed = lsi_carve(&next, packed);
    p->scratch = next;
    return LS_OK;
}

static void place_terms(const images_pass *p)
{
    const bool bare = lsi_padded_is_bare(&p->padded);
    const int64_t width = bare ? p->padded.w : p->padded.wide;
    size_t *at = p->at;
    for (int64_t i = 0; i < p->y.count; i++)
        for (int64_t j = 0; j < p->x.count; j++)
            for (int64_t c = 0; c < p->depth; c++)
                *at++ = (size_t)((i * p->y.apart * width + j * p->x.apart) *
                                     p->padded.c +
                                 c);
}

/* Extents of the padded image and of the work follow from what is set. */
static ls_status make_images(images_pass *p)
{
    if (p->n == 0 || p->rows <= 0 || p->columns <= 0)
        return LS_OK;
    const size_t panel = lsi_kernels_get()->chains->panel;
    p->padded.top = p->y.before;
    p->padded.left = p->x.before;
    p->padded.tall = band_rows(p, p->rows);
    p->padded.wide = (p->columns - 1) * p->stride + span(&p->x);
    p->terms = (size_t)(p->y.count * p->x.count * p->depth);
    p->panels = ((size_t)p->filters + panel - 1) / panel;
    divide(p);
    LS_TRY(reserve(p));
    place_terms(p);
    lsi_parallel_tasks((size_t)p->groups * p->panels, pack_panel, p);
    lsi_parallel_tasks((size_t)(parts_of(p->n, p->task_images) * p->bands),
                       make_rows, p);
    return LS_OK;
}

ls_status lsi_portable_conv2d_forward(const lsi_conv2d_shape *s, float *dst,
                                      const float *src, const float *weight,
                                      const float *bias_or_null)
{
    if (lsi_portable_pointwise_suits(s) && !s->relu)
        return lsi_portable_pointwise_forward(s, dst, src, weight,
                                              bias_or_null);
    images_pass p = {.src = src,
                     .weight = weight,
                     .bias = bias_or_null,
                     .dst = dst,
                     .relu = s->relu,
                     .y = {s->kh, 0, 1, s->dilation, s->padding},
                     .x = {s->kw, 0, 1, s->dilation, s->padding},
                     .taps = s->kh * s->kw,
                     .filter_width = s->kw,
                     .padded = {.h = s->h, .w = s->w, .c = s->c},
                     .stride = s->stride,
                     .n = s->n,
                     .rows = lsi_conv2d_extent(s, s->h, s->kh),
                     .columns = lsi_conv2d_extent(s, s->w, s->kw),
                     .groups = s->groups,
                     .depth = s->c / s->groups,
                     .filters = s->o / s->groups};
    p.column_step = s->o;
    p.row_step = p.columns * s->o;
    p.image_step = p.rows * p.row_step;
    p.channel_step = p.taps;
    p.filter_step = p.depth * p.taps;
    p.group_step = p.filters * p.filter_step;
    return make_images(&p);
}

/* The taps that reach pixels with this remainder by the stride. */
static tap_line taps_back(const lsi_conv2d_shape *s, int64_t k,
                          int64_t remainder)
{
    tap_line line = {.count = 0, .apart = 1};
    int64_t places[2] = {0, 0}; /* of the last two taps in the filter */
    for (int64_t i = 0; i < k; i++)
        if ((remainder + s->padding - i * s->dilation) % s->stride == 0) {
            line.count++;
            places[0] = places[1];
            places[1] = i;
        }
    if (line.count == 0)
        return line;
    line.first = places[1];
    line.before =
        -(remainder + s->padding - places[1] * s->dilation) / s->stride;
    line.step = line.count > 1 ? places[0] - places[1] : 0;
    if (line.count > 1)
        line.apart = -line.step * s->dilation / s->stride;
    return line;
}

ls_status lsi_portable_conv2d_backward_data(const lsi_conv2d_shape *s,
                                            float *dsrc, const float *ddst,
                                            const float *weight)
{
    if (lsi_portable_pointwise_suits(s))
        return lsi_portable_pointwise_backward_data(s, dsrc, ddst, weight);
    for (int64_t i = 0; i < s->stride * s->stride; i++) {
        const int64_t row = i / s->stride, column = i % s->stride;
        images_pass p = {.src = ddst,
                         .weight = weight,
                         .dst = dsrc + (row * s->w + column) * s->c,
                         .y = taps_back(s, s->kh, row),
                         .x = taps_back(s, s->kw, column),
                         .taps = s->kh * s->kw,
                         .filter_width = s->kw,
                         .padded = {.h = lsi_conv2d_extent(s, s->h, s->kh),
                                    .w = lsi_conv2d_extent(s, s->w, s->kw),
                                    .c = s->o},
                         .stride = 1,
                         .n = s->n,
                         .rows = parts_of(s->h - row, s->stride),
                         .columns = parts_of(s->w - column, s->stride),
                         .image_step = s->h * s->w * s->c,
                         .row_step = s->stride * s->w * s->c,
                         .column_step = s->stride * s->c,
                         .groups = s->groups,
                         .depth = s->o / s->groups,
                         .filters = s->c / s->groups};
        p.filter_step = p.taps;
        p.channel_step = p.filters * p.taps;
        p.group_step = p.depth * p.channel_step;
        LS_TRY(make_images(&p));
    }
    return LS_OK;
}
