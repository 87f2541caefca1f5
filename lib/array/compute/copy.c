/*
 * Conversions are the kernel's, on dense runs; elements that are apart are
 * gathered into a small buffer first and scattered afterwards.
 */
#include "array/compute/copy.h"
#include "array/compute/work.h"

#include <string.h>

#include "array/compute/threads.h"
#include "array/kernels/kernels.h"

enum {
    RUN = 256,      /* elements that are gathered at once */
    GRAIN = 1 << 15 /* elements worth a separate thread */
};

/* One side of a copy: where it is and how it is strided. */
typedef struct side {
    char *data;
    ls_dtype dtype;
    size_t size; /* of an element */
    int64_t strides[LS_MAX_DIMS];
} side;

/* Both sides over the same extents, innermost last, neighbours merged. */
typedef struct walk {
    int ndim;
    int64_t shape[LS_MAX_DIMS];
    side dst, src;
} walk;

/* ---- dense runs ---------------------------------------------------------- */

static void convert_range(void *context, size_t begin, size_t end)
{
    const walk *w = context;
    lsi_kernels_get()->convert(w->dst.data + begin * w->dst.size, w->dst.dtype,
                               w->src.data + begin * w->src.size, w->src.dtype,
                               end - begin);
}

static void copy_range(void *context, size_t begin, size_t end)
{
    const walk *w = context;
    memcpy(w->dst.data + begin * w->dst.size, w->src.data + begin * w->src.size,
           (end - begin) * w->dst.size);
}

static void copy_dense(walk *w, size_t n)
{
    lsi_parallel_for(
        n, GRAIN, w->dst.dtype == w->src.dtype ? copy_range : convert_range, w);
}

/* ---- strided runs -------------------------------------------------------- */

#define MOVE(type, dst, dst_stride, src, src_stride, n)                        \
    do {                                                                       \
        type *to = (void *)(dst);                                              \
        const type *from = (const void *)(src);                                \
        for (int64_t i = 0; i < (n); i++)                                      \
            to[i * (dst_stride)] = from[i * (src_stride)];                     \
    } while (0)

static void move(void *dst, int64_t dst_stride, const void *src,
                 int64_t src_stride, size_t size, int64_t n)
{
    switch (size) {
    case 1:
        MOVE(uint8_t, dst, dst_stride, src, src_stride, n);
        break;
    case 2:
        MOVE(uint16_t, dst, dst_stride, src, src_stride, n);
        break;
    case 4:
        MOVE(uint32_t, dst, dst_stride, src, src_stride, n);
        break;
    default:
        MOVE(uint64_t, dst, dst_stride, src, src_stride, n);
        break;
    }
}

/* The innermost dimension, from `from` on to `to` on. */
static void copy_run(const walk *w, char *to, const char *from)
{
    const side *dst = &w->dst, *src = &w->src;
    const int inner = w->ndim - 1;
    const int64_t n = w->shape[inner];
    const int64_t to_stride = dst->strides[inner];
    const int64_t from_stride = src->strides[inner];
    if (dst->dtype == src->dtype) {
        if (to_stride == 1 && from_stride == 1)
            memcpy(to, from, (size_t)n * dst->size);
        else
            move(to, to_stride, from, from_stride, dst->size, n);
        return;
    }
    uint64_t gathered[RUN], converted[RUN];
    for (int64_t i = 0; i < n; i += RUN) {
        const int64_t m = n - i < RUN ? n - i : RUN;
        move(gathered, 1, from + i * from_stride * (int64_t)src->size,
             from_stride, src->size, m);
        lsi_kernels_get()->convert(converted, dst->dtype, gathered, src->dtype,
                                   (size_t)m);
        move(to + i * to_stride * (int64_t)dst->size, to_stride, converted, 1,
             dst->size, m);
    }
}

static int64_t offset_of(const walk *w, const side *s, const int64_t *index)
{
    int64_t elements = 0;
    for (int d = 0; d < w->ndim - 1; d++)
        elements += index[d] * s->strides[d];
    return elements * (int64_t)s->size;
}

/* The next place of all but the innermost dimension. */
static void advance(const walk *w, int64_t *index)
{
    for (int d = w->ndim - 2; d >= 0; d--) {
        if (++index[d] < w->shape[d])
            return;
        index[d] = 0;
    }
}

/* Runs begin..end-1, counted over all but the innermost dimension. */
static void copy_runs(void *context, size_t begin, size_t end)
{
    const walk *w = context;
    int64_t index[LS_MAX_DIMS] = {0}, rest = (int64_t)begin;
    for (int d = w->ndim - 2; d >= 0; d--) {
        index[d] = rest % w->shape[d];
        rest /= w->shape[d];
    }
    for (size_t run = begin; run < end; run++) {
        copy_run(w, w->dst.data + offset_of(w, &w->dst, index),
                 w->src.data + offset_of(w, &w->src, index));
        advance(w, index);
    }
}

static void copy_strided(walk *w)
{
    size_t runs = 1;
    for (int d = 0; d < w->ndim - 1; d++)
        runs *= (size_t)w->shape[d];
    lsi_parallel_for(runs, 1 + GRAIN / (size_t)w->shape[w->ndim - 1], copy_runs,
                     w);
}

/* ---- transposed ---------------------------------------------------------- */

enum { TILE = 64 }; /* of rows and of columns that a task transposes */

/* A dimension of the source that is dense where that of the result is not. */
static int dense_in_source(const walk *w)
{
    const int inner = w->ndim - 1;
    if (w->dst.size != 4 || w->dst.dtype != w->src.dtype ||
        w->dst.strides[inner] != 1 || w->src.strides[inner] < TILE / 4)
        return -1;
    for (int d = 0; d < inner; d++)
        if (w->src.strides[d] == 1 && w->dst.strides[d] > 0)
            return d;
    return -1;
}

typedef struct turn {
    const walk *w;
    int across; /* dense in the source; the result's is the innermost */
    int64_t tiles[2];
} turn;

/* Tile `task`: the last two numbers are its place in the matrix. */
static void turn_tile(const turn *t, size_t task)
{
    const walk *w = t->w;
    const int inner = w->ndim - 1, across = t->across;
    int64_t rest = (int64_t)task;
    const int64_t column = rest % t->tiles[1] * TILE;
    rest /= t->tiles[1];
    const int64_t row = rest % t->tiles[0] * TILE;
    rest /= t->tiles[0];
    int64_t to = row * w->dst.strides[across] + column;
    int64_t from = row + column * w->src.strides[inner];
    for (int d = inner - 1; d >= 0; d--) {
        if (d == across)
            continue;
        const int64_t index = rest % w->shape[d];
        rest /= w->shape[d];
        to += index * w->dst.strides[d];
        from += index * w->src.strides[d];
    }
    const int64_t rows = w->shape[inner] - column;
    const int64_t cols = w->shape[across] - row;
    lsi_kernels_get()->transpose(
        (float *)(void *)w->dst.data + to, (size_t)w->dst.strides[across],
        (const float *)(const void *)w->src.data + from,
        (size_t)w->src.strides[inner], (size_t)(rows < TILE ? rows : TILE),
        (size_t)(cols < TILE ? cols : TILE));
}

static void turn_tiles(void *context, size_t begin, size_t end)
{
    for (size_t task = begin; task < end; task++)
        turn_tile(context, task);
}

static void copy_turned(const walk *w, int across)
{
    turn t = {.w = w, .across = across};
    const int inner = w->ndim - 1;
    t.tiles[0] = (w->shape[across] + TILE - 1) / TILE;
    t.tiles[1] = (w->shape[inner] + TILE - 1) / TILE;
    size_t tasks = (size_t)(t.tiles[0] * t.tiles[1]);
    for (int d = 0; d < inner; d++)
        tasks *= d != across ? (size_t)w->shape[d] : 1;
    lsi_parallel_for(tasks, GRAIN / (TILE * TILE), turn_tiles, &t);
}

/* ---- copy ---------------------------------------------------------------- */

static side side_of(const lsi_strided *array)
{
    return (side){.data = array->data,
                  .dtype = array->dtype,
                  .size = ls_dtype_size(array->dtype)};
}

/*
 * Drops extents of 1 and merges a dimension with the one outside it where both
 * sides step through the two as through one.
 */
static walk plan_walk(const lsi_strided *dst, const lsi_strided *src, int ndim,
                      const int64_t *shape)
{
    walk w = {.dst = side_of(dst), .src = side_of(src)};
    for (int d = 0; d < ndim; d++) {
        const int64_t extent = shape[d];
        const int64_t to = dst->strides[d], from = src->strides[d];
        const int last = w.ndim - 1;
        if (extent == 1)
            continue;
        if (w.ndim > 0 && w.dst.strides[last] == extent * to &&
            w.src.strides[last] == extent * from) {
            w.shape[last] *= extent;
            w.dst.strides[last] = to;
            w.src.strides[last] = from;
            continue;
        }
        w.shape[w.ndim] = extent;
        w.dst.strides[w.ndim] = to;
        w.src.strides[w.ndim] = from;
        w.ndim++;
    }
    if (w.ndim == 0) { /* one element */
        w.shape[w.ndim] = 1;
        w.dst.strides[w.ndim] = w.src.strides[w.ndim] = 1;
        w.ndim++;
    }
    return w;
}

void lsi_copy_strided(const lsi_strided *dst, const lsi_strided *src, int ndim,
                      const int64_t *shape)
{
    LSI_SPAN(KERNEL, "copy_strided",
             lsi_work_elements(ndim, shape) *
                 (ls_dtype_size(dst->dtype) + ls_dtype_size(src->dtype)),
             0);
    walk w = plan_walk(dst, src, ndim, shape);
    if (w.ndim == 1 && w.dst.strides[0] == 1 && w.src.strides[0] == 1)
        copy_dense(&w, (size_t)w.shape[0]);
    else if (dense_in_source(&w) >= 0)
        copy_turned(&w, dense_in_source(&w));
    else
        copy_strided(&w);
}
