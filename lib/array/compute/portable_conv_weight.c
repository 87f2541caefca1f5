/*
 * The gradient of the weights in portable bits, as a product. Rows are the taps
 * and channels of the source. Columns are filters. k runs over the pixels of
 * the result, a stretch of some blocks of them at a time. Of a stretch, rows of
 * the source are copied with zeros around them, and gradients in panels. All
 * threads then multiply it, each for other elements.
 */
#include "array/compute/array.h"
#include "array/compute/padded_rows.h"
#include "array/compute/plan_cache.h"
#include "array/compute/portable_conv.h"
#include "array/compute/portable_pointwise.h"
#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "array/kernels/portable.h"
#include "base/error.h"

enum {
    MOST_FLOATS = 1 << 18, /* that a stretch copies, if it is not one block */
    MOST_BLOCKS = 16,      /* of a stretch */
    TASK_PIXELS = 64,      /* that are packed at once */
    TASK_ROWS = 144        /* of the product */
};

typedef struct weight_pass {
    const lsi_conv2d_shape *s;
    const float *src, *ddst;
    float *dweight;
    bool accumulate;
    const lsi_chain_ops *ops;
    lsi_padded padded; /* src */
    bool bare;
    int64_t oh, ow;
    size_t pixels, depth, filters; /* of a group */
    size_t rows, panels;           /* of a group */

    size_t stretch;       /* pixels at most */
    size_t first, count;  /* pixels of this stretch */
    size_t *at;           /* of the pixels of the stretch */
    float *band, *packed; /* packed (groups, panels, stretch, panel) */
    const float **a;      /* of the rows */
    float **c;
    float *sums; /* (groups, panels, rows, panel) */
} weight_pass;

/* ---- a stretch ----------------------------------------------------------- */

static int64_t image_of(const weight_pass *p, size_t pixel)
{
    return (int64_t)pixel / (p->oh * p->ow);
}

static int64_t row_of(const weight_pass *p, size_t pixel)
{
    return (int64_t)pixel / p->ow % p->oh;
}

/*
 * The band has the padded rows of the stretch, image after image. It begins
 * with the first row that the first pixel reads.
 */
static int64_t band_row(const weight_pass *p, int64_t image, int64_t row)
{
    const int64_t images = image - image_of(p, p->first);
    return images * p->padded.tall + row - row_of(p, p->first) * p->s->stride;
}

static int64_t band_rows(const weight_pass *p)
{
    const size_t last = p->first + p->count - 1;
    const int64_t span = p->padded.tall - (p->oh - 1) * p->s->stride;
    return p->count == 0 ? 0
                         : band_row(p, image_of(p, last),
                                    row_of(p, last) * p->s->stride) +
                               span;
}

static void copy_row(const weight_pass *p, int64_t index)
{
    const int64_t row = index + row_of(p, p->first) * p->s->stride;
    const int64_t image = image_of(p, p->first) + row / p->padded.tall;
    lsi_padded_row(&p->padded, p->band + index * p->padded.wide * p->padded.c,
                   p->src + image * p->s->h * p->s->w * p->s->c,
                   row % p->padded.tall);
}

static size_t place_of(const weight_pass *p, size_t pixel)
{
    const int64_t y = row_of(p, pixel) * p->s->stride;
    const int64_t x = (int64_t)pixel % p->ow * p->s->stride;
    const int64_t image = image_of(p, pixel);
    if (p->bare)
        return (size_t)(((image * p->s->h + y) * p->s->w + x) * p->s->c);
    return (size_t)((band_row(p, image, y) * p->padded.wide + x) * p->s->c);
}

static void pack_pixel(const weight_pass *p, size_t index)
{
    const size_t panel = p->ops->panel;
    const float *from = p->ddst + (p->first + index) * (size_t)p->s->o;
    float *to = p->packed + index * panel;
    for (size_t g = 0; g < (size_t)p->s->groups; g++)
        for (size_t f = 0; f < p->filters; f += panel) {
            const size_t left = p->filters - f;
            const size_t n = left < panel ? left : panel;
            memcpy(to, from, n * sizeof(float));
            if (n < panel)
                memset(to + n, 0, (panel - n) * sizeof(float));
            from += n;
            to += p->stretch * panel;
        }
}

static size_t packing_tasks(const weight_pass *p)
{
    return (p->count + TASK_PIXELS - 1) / TASK_PIXELS;
}

static void pack(void *context, size_t task, int worker)
{
    (void)worker;
    const weight_pass *p = context;
    const size_t packing = packing_tasks(p);
    if (task >= packing) {
        copy_row(p, (int64_t)(task - packing));
        return;
    }
    for (size_t i = task * TASK_PIXELS;
         i < (task + 1) * TASK_PIXELS && i < p->count; i++) {
        p->at[i] = place_of(p, p->first + i);
        pack_pixel(p, i);
    }
}

static size_t row_tasks(const weight_pass *p)
{
    return (p->rows + TASK_ROWS - 1) / TASK_ROWS;
}

static void multiply(void *context, size_t task, int worker)
{
    (void)worker;
    const weight_pass *p = context;
    const size_t panel = p->ops->panel;
    const size_t first_row = task % row_tasks(p) * TASK_ROWS;
    const size_t index = task / row_tasks(p); /* group and panel */
    const size_t group = index / p->panels;
    const size_t rows = p->rows - first_row;
    const size_t cols = p->filters - index % p->panels * panel;
    lsi_chains run = {.c = p->c + first_row,
                      .a = p->a + first_row,
                      .first_c = index * p->rows * panel,
                      .first_a = group * p->depth,
                      .rows = rows < TASK_ROWS ? rows : TASK_ROWS,
                      .cols = cols < panel ? cols : panel};
    size_t k = 0;
    do { /* without pixels the sum is 0 */
        const size_t left = p->count - k;
        run.at = p->at + k;
        run.b = p->packed + (index * p->stretch + k) * panel;
        run.depth = left < LSI_PORTABLE_BLOCK ? left : LSI_PORTABLE_BLOCK;
        run.add = p->first + k > 0;
        p->ops->multiply(&run);
        k += run.depth;
    } while (k < p->count);
}

/* ---- the result ---------------------------------------------------------- */

static void put_panel(void *context, size_t task, int worker)
{
    (void)worker;
    const weight_pass *p = context;
    const size_t panel = p->ops->panel, first = task % p->panels * panel;
    const size_t taps = p->rows / p->depth;
    const float *from = p->sums + task * p->rows * panel;
    float *to =
        p->dweight + (task / p->panels * p->filters + first) * p->depth * taps;
    for (size_t f = 0; f < panel && first + f < p->filters; f++)
        for (size_t c = 0; c < p->depth; c++)
            for (size_t t = 0; t < taps; t++) {
                const float x = from[(t * p->depth + c) * panel + f];
                *to = p->accumulate ? *to + x : x;
                to++;
            }
}

/* ---- the plan ------------------------------------------------------------ */

/* Blocks of pixels that are copied at once: more for few channels. */
static void divide(weight_pass *p)
{
    const size_t each = (size_t)(p->s->c + p->s->o) * LSI_PORTABLE_BLOCK;
    size_t blocks = MOST_FLOATS / each;
    if (blocks > MOST_BLOCKS)
        blocks = MOST_BLOCKS;
    p->stretch = (blocks > 0 ? blocks : 1) * LSI_PORTABLE_BLOCK;
}

/* Rows of the band of any stretch. */
static size_t most_band_rows(const weight_pass *p)
{
    const int64_t stretch = (int64_t)p->stretch;
    const int64_t images = stretch / (p->oh * p->ow) + 2;
    const int64_t rows = stretch / p->ow + 2;
    const int64_t span = p->padded.tall - (p->oh - 1) * p->s->stride;
    const int64_t whole = images * p->padded.tall;
    const int64_t part = rows * p->s->stride + images * span;
    return (size_t)(whole < part ? whole : part);
}

static ls_status reserve(weight_pass *p)
{
    static const lsi_plan_kind kind =
        LSI_WORKSPACE_KIND("memory of a convolution's gradient");
    const size_t panels = (size_t)p->s->groups * p->panels;
    const size_t band =
        p->bare ? 0 : most_band_rows(p) * (size_t)(p->padded.wide * p->s->c);
    const size_t bytes[] = {p->stretch * sizeof(size_t),
                            band * sizeof(float),
                            panels * p->stretch * p->ops->panel * sizeof(float),
                            p->rows * sizeof(float *),
                            p->rows * sizeof(float *),
                            panels * p->rows * p->ops->panel * sizeof(float)};
    size_t all = 0;
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        all += lsi_carved(bytes[i]);
    void *memory;
    LS_TRY(lsi_workspace_get(&kind, all, "a convolution's gradient", &memory));
    char *next = memory;
    p->at = lsi_carve(&next, bytes[0]);
    p->band = lsi_carve(&next, bytes[1]);
    p->packed = lsi_carve(&next, bytes[2]);
    p->a = lsi_carve(&next, bytes[3]);
    p->c = lsi_carve(&next, bytes[4]);
    p->sums = lsi_carve(&next, bytes[5]);
    return LS_OK;
}

static void place_rows(const weight_pass *p)
{
    const lsi_conv2d_shape *s = p->s;
    const float *from = p->bare ? p->src : p->band;
    const int64_t width = p->bare ? s->w : p->padded.wide;
    for (size_t r = 0; r < p->rows; r++) {
        const int64_t tap = (int64_t)(r / p->depth);
        const int64_t pixel = (tap / s->kw * width + tap % s->kw) * s->dilation;
        p->a[r] = from + pixel * s->c + r % p->depth;
        p->c[r] = p->sums + r * p->ops->panel;
    }
}

static ls_status add_up(const lsi_conv2d_shape *s, float *dweight,
                        const float *src, const float *ddst, bool accumulate)
{
    weight_pass p = {.s = s,
                     .src = src,
                     .ddst = ddst,
                     .dweight = dweight,
                     .accumulate = accumulate,
                     .ops = lsi_kernels_get()->chains,
                     .oh = lsi_conv2d_extent(s, s->h, s->kh),
                     .ow = lsi_conv2d_extent(s, s->w, s->kw),
                     .depth = (size_t)(s->c / s->groups),
                     .filters = (size_t)(s->o / s->groups)};
    p.padded = (lsi_padded){
        .h = s->h,
        .w = s->w,
        .c = s->c,
        .top = s->padding,
        .left = s->padding,
        .tall = (p.oh - 1) * s->stride + (s->kh - 1) * s->dilation + 1,
        .wide = (p.ow - 1) * s->stride + (s->kw - 1) * s->dilation + 1};
    p.bare = lsi_padded_is_bare(&p.padded);
    p.pixels = (size_t)(s->n * p.oh * p.ow);
    p.rows = (size_t)(s->kh * s->kw) * p.depth;
    p.panels = (p.filters + p.ops->panel - 1) / p.ops->panel;
    divide(&p);
    LS_TRY(reserve(&p));
    place_rows(&p);
    const size_t panels = (size_t)s->groups * p.panels;
    do { /* without pixels the gradient is 0 */
        const size_t left = p.pixels - p.first;
        p.count = left < p.stretch ? left : p.stretch;
        lsi_parallel_tasks(
            packing_tasks(&p) + (p.bare ? 0 : (size_t)band_rows(&p)), pack, &p);
        lsi_parallel_tasks(panels * row_tasks(&p), multiply, &p);
        p.first += p.count;
    } while (p.first < p.pixels);
    lsi_parallel_tasks(panels, put_panel, &p);
    return LS_OK;
}

ls_status
lsi_portable_conv2d_backward_weight(const lsi_conv2d_shape *s, float *dweight,
                                    float *dbias_or_null, const float *src,
                                    const float *ddst, bool accumulate)
{
    const int64_t pixels = s->n * lsi_conv2d_extent(s, s->h, s->kh) *
                           lsi_conv2d_extent(s, s->w, s->kw);
    LS_TRY(lsi_portable_pointwise_suits(s)
               ? lsi_portable_pointwise_backward_weight(s, dweight, src, ddst,
                                                        accumulate)
               : add_up(s, dweight, src, ddst, accumulate));
    if (dbias_or_null)
        lsi_array_column_sum(dbias_or_null, ddst, (size_t)pixels, (size_t)s->o,
                             accumulate);
    return LS_OK;
}
