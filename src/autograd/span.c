/* Kernels over long arrays, by several threads; see span.h. */
#include "autograd/span.h"

#include <string.h>

#include "base/threads.h"
#include "kernels/kernels.h"

enum {
    GRAIN = 1 << 14, /* elements that are worth a thread */
    MIXED_GRAIN = 1 << 12,
    MIXED_BLOCK = 512,
    SUM_CHUNK = 1 << 12,
    SUM_CHUNKS = 256 /* whose partial sums are held at once */
};

/* The arguments of any of the calls. */
typedef struct span {
    float *y;
    const float *a, *b;
    float factor;
    const lsi_dropout *dropout;
} span;

static void run(size_t n, lsi_range_fn fn, span *s)
{
    lsi_parallel_for(n, GRAIN, fn, s);
}

static void add_range(void *context, size_t begin, size_t end)
{
    const span *s = context;
    lsi_kernels_get()->add(s->y + begin, s->a + begin, s->b + begin,
                           end - begin);
}

void lsi_span_add(float *y, const float *a, const float *b, size_t n)
{
    run(n, add_range, &(span){.y = y, .a = a, .b = b});
}

static void sub_range(void *context, size_t begin, size_t end)
{
    const span *s = context;
    lsi_kernels_get()->sub(s->y + begin, s->a + begin, s->b + begin,
                           end - begin);
}

void lsi_span_sub(float *y, const float *a, const float *b, size_t n)
{
    run(n, sub_range, &(span){.y = y, .a = a, .b = b});
}

static void mul_range(void *context, size_t begin, size_t end)
{
    const span *s = context;
    lsi_kernels_get()->mul(s->y + begin, s->a + begin, s->b + begin,
                           end - begin);
}

void lsi_span_mul(float *y, const float *a, const float *b, size_t n)
{
    run(n, mul_range, &(span){.y = y, .a = a, .b = b});
}

static void scale_range(void *context, size_t begin, size_t end)
{
    const span *s = context;
    lsi_kernels_get()->scale(s->y + begin, s->a + begin, s->factor,
                             end - begin);
}

void lsi_span_scale(float *y, const float *a, float factor, size_t n)
{
    run(n, scale_range, &(span){.y = y, .a = a, .factor = factor});
}

static void axpy_range(void *context, size_t begin, size_t end)
{
    const span *s = context;
    lsi_kernels_get()->axpy(s->y + begin, s->a + begin, s->factor, end - begin);
}

void lsi_span_axpy(float *y, const float *a, float factor, size_t n)
{
    run(n, axpy_range, &(span){.y = y, .a = a, .factor = factor});
}

static void fill_range(void *context, size_t begin, size_t end)
{
    const span *s = context;
    for (size_t i = begin; i < end; i++)
        s->y[i] = s->factor;
}

void lsi_span_fill(float *y, float value, size_t n)
{
    run(n, fill_range, &(span){.y = y, .factor = value});
}

static void dropout_range(void *context, size_t begin, size_t end)
{
    const span *s = context;
    const lsi_dropout *d = s->dropout;
    lsi_kernels_get()->dropout(s->y + begin, s->a + begin, end - begin, d->key,
                               d->sub, begin, d->threshold, d->factor);
}

void lsi_span_dropout(float *y, const float *x, size_t n,
                      const lsi_dropout *dropout)
{
    run(n, dropout_range, &(span){.y = y, .a = x, .dropout = dropout});
}

/* ---- any type ------------------------------------------------------------ */

typedef struct typed_span {
    char *dst;
    const char *src;
    ls_dtype dst_dtype, src_dtype;
} typed_span;

static void convert_range(void *context, size_t begin, size_t end)
{
    const typed_span *s = context;
    lsi_kernels_get()->convert(s->dst + begin * ls_dtype_size(s->dst_dtype),
                               s->dst_dtype,
                               s->src + begin * ls_dtype_size(s->src_dtype),
                               s->src_dtype, end - begin);
}

void lsi_span_convert(void *dst, ls_dtype dst_dtype, const void *src,
                      ls_dtype src_dtype, size_t n)
{
    typed_span s = {dst, src, dst_dtype, src_dtype};
    lsi_parallel_for(n, GRAIN, convert_range, &s);
}

static void accumulate_range(void *context, size_t begin, size_t end)
{
    const typed_span *s = context;
    const size_t offset = begin * ls_dtype_size(s->dst_dtype);
    const void *sources[2] = {s->dst + offset, s->src + offset};
    lsi_kernels_get()->reduce(s->dst + offset, sources, 2, end - begin,
                              s->dst_dtype, LS_SUM, 1.0);
}

void lsi_span_accumulate(void *dst, const void *src, ls_dtype dtype, size_t n)
{
    typed_span s = {dst, src, dtype, dtype};
    lsi_parallel_for(n, GRAIN, accumulate_range, &s);
}

/* ---- mixed types --------------------------------------------------------- */

typedef struct mixed_job {
    const lsi_mixed *arrays;
    int n_arrays;
    lsi_mixed_fn fn;
    const void *context;
    bool any_half;
} mixed_job;

static void *mixed_at(const lsi_mixed *array, size_t at)
{
    return (char *)array->data + at * ls_dtype_size(array->dtype);
}

static void mixed_block(const mixed_job *j, size_t at, size_t n)
{
    float blocks[LSI_MIXED_ARRAYS][MIXED_BLOCK];
    float *pointers[LSI_MIXED_ARRAYS];
    const lsi_kernels *k = lsi_kernels_get();
    for (int i = 0; i < j->n_arrays; i++) {
        const lsi_mixed *array = &j->arrays[i];
        pointers[i] = mixed_at(array, at);
        if (array->dtype == LS_F32)
            continue;
        if (array->use & LSI_MIXED_IN)
            k->convert(blocks[i], LS_F32, pointers[i], array->dtype, n);
        pointers[i] = blocks[i];
    }
    j->fn(j->context, pointers, n);
    for (int i = 0; i < j->n_arrays; i++) {
        const lsi_mixed *array = &j->arrays[i];
        if (array->dtype != LS_F32 && (array->use & LSI_MIXED_OUT))
            k->convert(mixed_at(array, at), array->dtype, blocks[i], LS_F32, n);
    }
}

static void mixed_range(void *context, size_t begin, size_t end)
{
    const mixed_job *j = context;
    const size_t block = j->any_half ? MIXED_BLOCK : end - begin;
    for (size_t at = begin; at < end; at += block)
        mixed_block(j, at, end - at < block ? end - at : block);
}

void lsi_span_mixed(const lsi_mixed *arrays, int n_arrays, size_t n,
                    lsi_mixed_fn fn, const void *context)
{
    mixed_job j = {arrays, n_arrays, fn, context, false};
    for (int i = 0; i < n_arrays; i++)
        j.any_half = j.any_half || arrays[i].dtype != LS_F32;
    lsi_parallel_for(n, MIXED_GRAIN, mixed_range, &j);
}

static void relu_backward_block(const void *context, float *const *p, size_t n)
{
    (void)context;
    lsi_kernels_get()->relu_backward(p[0], p[1], p[2], n, false);
}

void lsi_span_relu_backward(lsi_mixed dx, lsi_mixed dy, lsi_mixed y, size_t n)
{
    const lsi_mixed arrays[] = {dx, dy, y};
    lsi_span_mixed(arrays, 3, n, relu_backward_block, NULL);
}

/* ---- sums ---------------------------------------------------------------- */

typedef struct sum_job {
    const float *a, *b;
    size_t n;
    double partial[SUM_CHUNKS];
} sum_job;

static void sum_chunks(void *context, size_t begin, size_t end)
{
    sum_job *job = context;
    for (size_t c = begin; c < end; c++) {
        const size_t first = c * SUM_CHUNK;
        const size_t left = job->n - first;
        const size_t n = left < SUM_CHUNK ? left : SUM_CHUNK;
        if (job->b != NULL)
            lsi_kernels_get()->squared_distance(
                &job->partial[c], job->a + first, job->b + first, n);
        else
            lsi_kernels_get()->sum(&job->partial[c], job->a + first, n);
    }
}

double lsi_span_sum(const float *a, const float *b_or_null, size_t n)
{
    double total = 0.0;
    for (size_t first = 0; first < n; first += (size_t)SUM_CHUNK * SUM_CHUNKS) {
        sum_job job = {.a = a + first,
                       .b = b_or_null != NULL ? b_or_null + first : NULL,
                       .n = n - first};
        size_t chunks = (job.n + SUM_CHUNK - 1) / SUM_CHUNK;
        if (chunks > SUM_CHUNKS)
            chunks = SUM_CHUNKS;
        lsi_parallel_for(chunks, 16, sum_chunks, &job);
        for (size_t c = 0; c < chunks; c++)
            total += job.partial[c];
    }
    return total;
}
