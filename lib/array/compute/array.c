/* Kernels over long arrays, by several threads; see array.h. */
#include "array/compute/array.h"
#include "observe/spans.h"

#include <string.h>

#include "array/compute/threads.h"
#include "array/kernels/kernels.h"

enum {
    GRAIN = 1 << 14, /* elements that are worth a thread */
    SUM_CHUNK = 1 << 12,
    SUM_CHUNKS = 256,   /* whose partial sums are held at once */
    SQUARES_GRAIN = 32, /* blocks */
    COLUMNS = 64,       /* that a kernel sums together */
    HALVES_BLOCK = 4096,
    BLEND_BLOCK = 1024
};

/* The arguments of any of the calls. */
typedef struct span {
    float *y;
    const float *a, *b;
    float factor;
    void (*binary)(float *y, const float *a, const float *b, size_t n);
    const lsi_dropout *dropout;
    const uint8_t *condition;
    bool when;
} span;

static void run_elementwise(size_t n, lsi_range_fn fn, span *s)
{
    lsi_parallel_for(n, GRAIN, fn, s);
}

/* ---- f32 ----------------------------------------------------------------- */

static void binary_range(void *context, size_t begin, size_t end)
{
    const span *s = context;
    s->binary(s->y + begin, s->a + begin, s->b + begin, end - begin);
}

void lsi_array_add(float *y, const float *a, const float *b, size_t n)
{
    LSI_SPAN(KERNEL, "add", 12 * n, n);
    run_elementwise(n, binary_range,
                    &(span){y, a, b, .binary = lsi_kernels_get()->add});
}

void lsi_array_sub(float *y, const float *a, const float *b, size_t n)
{
    LSI_SPAN(KERNEL, "sub", 12 * n, n);
    run_elementwise(n, binary_range,
                    &(span){y, a, b, .binary = lsi_kernels_get()->sub});
}

void lsi_array_mul(float *y, const float *a, const float *b, size_t n)
{
    LSI_SPAN(KERNEL, "mul", 12 * n, n);
    run_elementwise(n, binary_range,
                    &(span){y, a, b, .binary = lsi_kernels_get()->mul});
}

void lsi_array_div(float *y, const float *a, const float *b, size_t n)
{
    LSI_SPAN(KERNEL, "div", 12 * n, n);
    run_elementwise(n, binary_range,
                    &(span){y, a, b, .binary = lsi_kernels_get()->div});
}

static void scale_range(void *context, size_t begin, size_t end)
{
    const span *s = context;
    lsi_kernels_get()->scale(s->y + begin, s->a + begin, s->factor,
                             end - begin);
}

void lsi_array_scale(float *y, const float *a, float factor, size_t n)
{
    LSI_SPAN(KERNEL, "scale", 8 * n, n);
    run_elementwise(n, scale_range, &(span){.y = y, .a = a, .factor = factor});
}

static void blend_range(void *context, size_t begin, size_t end)
{
    const span *s = context;
    float difference[BLEND_BLOCK];
    for (size_t i = begin; i < end; i += BLEND_BLOCK) {
        const size_t n = end - i < BLEND_BLOCK ? end - i : BLEND_BLOCK;
        lsi_kernels_get()->sub(difference, s->a + i, s->y + i, n);
        lsi_kernels_get()->axpy(s->y + i, difference, s->factor, n);
    }
}

void lsi_array_blend(float *y, const float *a, float part, size_t n)
{
    LSI_SPAN(KERNEL, "blend", 12 * n, 3 * n);
    run_elementwise(n, blend_range, &(span){.y = y, .a = a, .factor = part});
}

typedef struct pair {
    float *a, *b;
} pair;

static void swap_range(void *context, size_t begin, size_t end)
{
    const pair *p = context;
    float kept[BLEND_BLOCK];
    for (size_t i = begin; i < end; i += BLEND_BLOCK) {
        const size_t n = end - i < BLEND_BLOCK ? end - i : BLEND_BLOCK;
        memcpy(kept, p->a + i, n * sizeof(float));
        memcpy(p->a + i, p->b + i, n * sizeof(float));
        memcpy(p->b + i, kept, n * sizeof(float));
    }
}

void lsi_array_swap(float *a, float *b, size_t n)
{
    LSI_SPAN(KERNEL, "swap", 16 * n, 0);
    lsi_parallel_for(n, GRAIN, swap_range, &(pair){a, b});
}

static void fill_range(void *context, size_t begin, size_t end)
{
    const span *s = context;
    lsi_kernels_get()->fill(s->y + begin, s->factor, end - begin);
}

void lsi_array_fill(float *y, float value, size_t n)
{
    LSI_SPAN(KERNEL, "fill", 4 * n, 0);
    run_elementwise(n, fill_range, &(span){.y = y, .factor = value});
}

void lsi_array_spread(float *y, const float *scalar, double factor, size_t n)
{
    LSI_SPAN(KERNEL, "spread", 4 * n, 0);
    lsi_array_fill(y, (float)((double)*scalar * factor), n);
}

static void dropout_range(void *context, size_t begin, size_t end)
{
    const span *s = context;
    const lsi_dropout *d = s->dropout;
    lsi_kernels_get()->dropout(s->y + begin, s->a + begin, end - begin, d->key,
                               d->sub, begin, d->threshold, d->factor);
}

void lsi_array_dropout(float *y, const float *x, size_t n,
                       const lsi_dropout *dropout)
{
    LSI_SPAN(KERNEL, "dropout", 8 * n, n);
    run_elementwise(n, dropout_range,
                    &(span){.y = y, .a = x, .dropout = dropout});
}

static void where_range(void *context, size_t begin, size_t end)
{
    const span *s = context;
    for (size_t i = begin; i < end; i++)
        s->y[i] = s->condition[i] != 0 ? s->a[i] : s->b[i];
}

void lsi_array_where(float *y, const uint8_t *condition, const float *a,
                     const float *b, size_t n)
{
    LSI_SPAN(KERNEL, "where", 13 * n, 0);
    run_elementwise(n, where_range, &(span){y, a, b, .condition = condition});
}

static void keep_where_range(void *context, size_t begin, size_t end)
{
    const span *s = context;
    for (size_t i = begin; i < end; i++)
        s->y[i] = (s->condition[i] != 0) == s->when ? s->a[i] : 0.0F;
}

void lsi_array_keep_where(float *y, const uint8_t *condition, bool when,
                          const float *a, size_t n)
{
    LSI_SPAN(KERNEL, "keep_where", 9 * n, 0);
    run_elementwise(n, keep_where_range,
                    &(span){y, a, .condition = condition, .when = when});
}

typedef struct fold_job {
    float *dst, *const *srcs;
    int n_srcs;
} fold_job;

static void fold_range(void *context, size_t begin, size_t end)
{
    const fold_job *job = context;
    const void *srcs[LSI_ARRAY_MAX_FOLD];
    for (int s = 0; s < job->n_srcs; s++)
        srcs[s] = job->srcs[s] + begin;
    lsi_kernels_get()->reduce(job->dst + begin, srcs, job->n_srcs, end - begin,
                              LS_F32, LS_REDUCE_SUM, 1.0);
}

void lsi_array_fold(float *dst, float *const *srcs, int n_srcs, size_t n)
{
    LSI_SPAN(KERNEL, "fold", 4 * n * (size_t)(n_srcs + 1), n * (size_t)n_srcs);
    lsi_parallel_for(n, GRAIN, fold_range, &(fold_job){dst, srcs, n_srcs});
}

/* ---- sums ---------------------------------------------------------------- */

typedef void (*pair_sum_fn)(double *out, const float *a, const float *b,
                            size_t n);

typedef struct sum_job {
    pair_sum_fn pairs; /* where there is a b */
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
            job->pairs(&job->partial[c], job->a + first, job->b + first, n);
        else
            lsi_kernels_get()->sum(&job->partial[c], job->a + first, n);
    }
}

static double total_of(pair_sum_fn pairs, const float *a,
                       const float *b_or_null, size_t n)
{
    double total = 0.0;
    for (size_t first = 0; first < n; first += (size_t)SUM_CHUNK * SUM_CHUNKS) {
        sum_job job = {.pairs = pairs,
                       .a = a + first,
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

double lsi_array_total(const float *a, const float *b_or_null, size_t n)
{
    LSI_SPAN(KERNEL, "total", 4 * n * (b_or_null != NULL ? 2 : 1),
             n * (b_or_null != NULL ? 2 : 1));
    return total_of(lsi_kernels_get()->squared_distance, a, b_or_null, n);
}

double lsi_array_total_bce(const float *x, const float *t, size_t n)
{
    return total_of(lsi_kernels_get()->bce_with_logits, x, t, n);
}

void lsi_array_sum(float *y, const float *a, size_t n, double factor)
{
    LSI_SPAN(KERNEL, "sum", 4 * n, n);
    *y = (float)(lsi_array_total(a, NULL, n) * factor);
}

typedef struct column_job {
    float *out;
    const float *a;
    size_t rows, cols;
    bool accumulate;
} column_job;

static void column_range(void *context, size_t begin, size_t end)
{
    const column_job *job = context;
    lsi_kernels_get()->column_sum(job->out + begin, job->a + begin, job->rows,
                                  end - begin, job->cols, job->accumulate);
}

/* Threads take columns: the order of the sum over rows is the kernel's. */
void lsi_array_column_sum(float *out, const float *a, size_t rows, size_t cols,
                          bool accumulate)
{
    LSI_SPAN(KERNEL, "column_sum", 4 * rows * cols, rows * cols);
    const size_t grain = GRAIN / (rows + 1);
    lsi_parallel_for(cols, grain > COLUMNS ? grain : COLUMNS, column_range,
                     &(column_job){out, a, rows, cols, accumulate});
}

typedef struct squares_job {
    double *sums;
    const float *a;
    size_t n;
} squares_job;

static void squares_range(void *context, size_t begin, size_t end)
{
    const squares_job *job = context;
    const size_t first = begin * LSI_SQUARES_BLOCK;
    const size_t last = end * LSI_SQUARES_BLOCK;
    lsi_kernels_get()->squares(job->sums + begin, job->a + first,
                               (last < job->n ? last : job->n) - first);
}

void lsi_array_squares(double *sums, const float *a, size_t n)
{
    LSI_SPAN(KERNEL, "squares", 4 * n, 2 * n);
    lsi_parallel_for((n + LSI_SQUARES_BLOCK - 1) / LSI_SQUARES_BLOCK,
                     SQUARES_GRAIN, squares_range, &(squares_job){sums, a, n});
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

void lsi_array_convert(void *dst, ls_dtype dst_dtype, const void *src,
                       ls_dtype src_dtype, size_t n)
{
    LSI_SPAN(KERNEL, "convert",
             n * (ls_dtype_size(dst_dtype) + ls_dtype_size(src_dtype)), 0);
    lsi_parallel_for(n, GRAIN, convert_range,
                     &(typed_span){dst, src, dst_dtype, src_dtype});
}

static void accumulate_range(void *context, size_t begin, size_t end)
{
    const typed_span *s = context;
    const size_t offset = begin * ls_dtype_size(s->dst_dtype);
    const void *sources[2] = {s->dst + offset, s->src + offset};
    lsi_kernels_get()->reduce(s->dst + offset, sources, 2, end - begin,
                              s->dst_dtype, LS_REDUCE_SUM, 1.0);
}

void lsi_array_accumulate(void *dst, const void *src, ls_dtype dtype, size_t n)
{
    LSI_SPAN(KERNEL, "accumulate", 3 * n * ls_dtype_size(dtype), n);
    lsi_parallel_for(n, GRAIN, accumulate_range,
                     &(typed_span){dst, src, dtype, dtype});
}

void lsi_array_zero(void *dst, ls_dtype dtype, size_t n)
{
    LSI_SPAN(KERNEL, "zero", n * ls_dtype_size(dtype), 0);
    if (n > 0) /* else there may be no array */
        memset(dst, 0, n * ls_dtype_size(dtype));
}

void lsi_array_copy(void *dst, const void *src, ls_dtype dtype, size_t n)
{
    LSI_SPAN(KERNEL, "copy", 2 * n * ls_dtype_size(dtype), 0);
    if (n > 0)
        memcpy(dst, src, n * ls_dtype_size(dtype));
}

typedef struct halves_job {
    uint16_t *dst;
    ls_dtype dtype;
    const float *src;
} halves_job;

static void correct_range(void *context, size_t begin, size_t end)
{
    const halves_job *job = context;
    uint16_t block[HALVES_BLOCK];
    for (size_t i = begin; i < end; i += HALVES_BLOCK) {
        const size_t left = end - i;
        const size_t n = left < HALVES_BLOCK ? left : HALVES_BLOCK;
        lsi_kernels_get()->convert(block, job->dtype, job->src + i, LS_F32, n);
        if (memcmp(job->dst + i, block, n * sizeof(uint16_t)) != 0)
            memcpy(job->dst + i, block, n * sizeof(uint16_t));
    }
}

void lsi_array_correct_halves(uint16_t *dst, ls_dtype dtype, const float *src,
                              size_t n)
{
    LSI_SPAN(KERNEL, "correct_halves", 6 * n, n);
    lsi_parallel_for(n, HALVES_BLOCK, correct_range,
                     &(halves_job){dst, dtype, src});
}

void lsi_array_normalize_u8(float *y, const uint8_t *x, size_t pixels,
                            const float scale[3], const float shift[3])
{
    LSI_SPAN(KERNEL, "normalize_u8", 15 * pixels, 6 * pixels);
    lsi_kernels_get()->normalize_u8(y, x, pixels, scale, shift);
}
