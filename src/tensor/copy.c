/*
 * Contents: copying between any strides and types, filling, reading one
 * element. Conversions are the kernel table's, on dense runs; elements that
 * are apart are gathered into a small buffer first and scattered afterwards.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/threads.h"
#include "kernels/kernels.h"
#include "tensor/tensor.h"

enum {
    RUN = 256,      /* elements that are gathered at once */
    GRAIN = 1 << 15 /* elements worth a thread of their own */
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

/* The next place of all but the innermost dimension; false after the last. */
static bool advance(const walk *w, int64_t *index)
{
    for (int d = w->ndim - 2; d >= 0; d--) {
        if (++index[d] < w->shape[d])
            return true;
        index[d] = 0;
    }
    return false;
}

static void copy_strided(const walk *w)
{
    int64_t index[LS_MAX_DIMS] = {0};
    do {
        copy_run(w, w->dst.data + offset_of(w, &w->dst, index),
                 w->src.data + offset_of(w, &w->src, index));
    } while (advance(w, index));
}

/* ---- copy ---------------------------------------------------------------- */

static side side_of(const ls_tensor *tensor)
{
    return (side){.data = lsi_tensor_raw(tensor),
                  .dtype = tensor->dtype,
                  .size = ls_dtype_size(tensor->dtype)};
}

/*
 * Drops extents of 1 and merges a dimension with the one outside it where both
 * sides step through the two as through one.
 */
static walk plan_walk(const ls_tensor *dst, const ls_tensor *src)
{
    walk w = {.dst = side_of(dst), .src = side_of(src)};
    for (int d = 0; d < dst->ndim; d++) {
        const int64_t extent = dst->shape[d];
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

static void copy_elements(const ls_tensor *dst, const ls_tensor *src)
{
    walk w = plan_walk(dst, src);
    if (w.ndim == 1 && w.dst.strides[0] == 1 && w.src.strides[0] == 1)
        copy_dense(&w, (size_t)w.shape[0]);
    else
        copy_strided(&w);
}

/* From the first to one past the last byte that a tensor touches. */
static void extent_of(const ls_tensor *tensor, uintptr_t *begin, uintptr_t *end)
{
    int64_t last = 0;
    for (int d = 0; d < tensor->ndim; d++)
        last += (tensor->shape[d] - 1) * tensor->strides[d];
    *begin = (uintptr_t)lsi_tensor_raw(tensor);
    *end = *begin + (size_t)(last + 1) * ls_dtype_size(tensor->dtype);
}

static bool overlap(const ls_tensor *a, const ls_tensor *b)
{
    uintptr_t a_begin = 0, a_end = 0, b_begin = 0, b_end = 0;
    extent_of(a, &a_begin, &a_end);
    extent_of(b, &b_begin, &b_end);
    return a_begin < b_end && b_begin < a_end;
}

/* Through a dense tensor of its own, as if src had been read first. */
static ls_status copy_overlapping(ls_tensor *dst, const ls_tensor *src)
{
    ls_tensor *between = NULL;
    LS_TRY(ls_tensor_new(&between, src->dtype, src->ndim, src->shape));
    copy_elements(between, src);
    copy_elements(dst, between);
    ls_tensor_free(&between);
    return LS_OK;
}

static ls_status check_memory(const ls_tensor *tensor, const char *function)
{
    if (tensor->storage != NULL)
        return lsi_tensor_plain(tensor);
    return lsi_fail(LS_ERR_STATE,
                    "%s: the parameter of shape %s has no memory yet; call "
                    "ls_params_allocate first",
                    function, lsi_shape_of(tensor).text);
}

ls_status ls_tensor_copy(ls_tensor *dst, const ls_tensor *src)
{
    LS_NEED_TENSOR(dst);
    LS_NEED_TENSOR(src);
    LS_TRY(check_memory(dst, "ls_tensor_copy"));
    LS_TRY(check_memory(src, "ls_tensor_copy"));
    if (!lsi_shape_equal(dst, src))
        return lsi_fail(LS_ERR_SHAPE,
                        "ls_tensor_copy: shape %s cannot be copied into %s",
                        lsi_shape_of(src).text, lsi_shape_of(dst).text);
    if (dst->count == 0)
        return LS_OK;
    if (overlap(dst, src))
        return copy_overlapping(dst, src);
    copy_elements(dst, src);
    return LS_OK;
}

/* ---- fill and item ------------------------------------------------------- */

/* Integers are rounded to the nearest; what does not fit them is an error. */
static ls_status integer_for(ls_dtype dtype, double value, int64_t *out)
{
    const double low = dtype == LS_U8    ? 0.0
                       : dtype == LS_I32 ? (double)INT32_MIN
                                         : -0x1p63;
    const double end = dtype == LS_U8    ? 0x1p8
                       : dtype == LS_I32 ? 0x1p31
                                         : 0x1p63;
    const double rounded = nearbyint(value);
    if (!(rounded >= low && rounded < end))
        return lsi_fail(LS_ERR_ARGUMENT, "%g does not fit a tensor of %s",
                        value, ls_dtype_name(dtype));
    *out = (int64_t)rounded;
    return LS_OK;
}

static ls_status element_for(ls_dtype dtype, double value, void *element)
{
    const bool is_integer =
        dtype == LS_U8 || dtype == LS_I32 || dtype == LS_I64;
    int64_t integer = 0;
    if (is_integer) {
        LS_TRY(integer_for(dtype, value, &integer));
        lsi_kernels_get()->convert(element, dtype, &integer, LS_I64, 1);
    } else {
        lsi_kernels_get()->convert(element, dtype, &value, LS_F64, 1);
    }
    return LS_OK;
}

ls_status ls_tensor_fill(ls_tensor *tensor, double value)
{
    LS_NEED_TENSOR(tensor);
    LS_TRY(check_memory(tensor, "ls_tensor_fill"));
    uint64_t element = 0;
    LS_TRY(element_for(tensor->dtype, value, &element));
    if (tensor->count == 0)
        return LS_OK;
    /* A tensor whose strides are all 0 repeats one element. */
    lsi_storage storage = {.data = &element};
    ls_tensor repeated = {.dtype = tensor->dtype,
                          .ndim = tensor->ndim,
                          .count = tensor->count,
                          .storage = &storage};
    for (int d = 0; d < tensor->ndim; d++)
        repeated.shape[d] = tensor->shape[d];
    copy_elements(tensor, &repeated);
    return LS_OK;
}

ls_status ls_tensor_item(const ls_tensor *tensor, double *out)
{
    LS_NEED_TENSOR(tensor);
    LS_TRY(check_memory(tensor, "ls_tensor_item"));
    LS_NEED(out);
    if (tensor->count != 1)
        return lsi_fail(LS_ERR_SHAPE,
                        "ls_tensor_item: the tensor of shape %s has %lld "
                        "elements, not one",
                        lsi_shape_of(tensor).text, (long long)tensor->count);
    lsi_kernels_get()->convert(out, LS_F64, lsi_tensor_raw(tensor),
                               tensor->dtype, 1);
    return LS_OK;
}
