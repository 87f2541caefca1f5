/* Few rows times a matrix of weights; see row_products.h. */
#include "array/compute/row_products.h"

#include "array/compute/array.h"
#include "array/compute/dense.h"
#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "base/bits.h"
#include "base/error.h"
#include "base/memory.h"
#include "observe/spans.h"

enum {
    BLOCK = 16,         /* rows of w, which stay in the cache for all of x */
    ELEMENTS = 1 << 15, /* of w in a task, at least; below that no threads */
    TASKS = 8,          /* for each thread, at most */
    WIDENED = 1 << 21,  /* elements of w at a time */
};

typedef struct job {
    const lsi_row_products *p;
    const lsi_kernels *kernels;
    float *y;
    const float *x;
    const char *w;
    const float *bias;
    size_t each; /* rows of w in a task */
    bool portable;
} job;

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Memory serves threads unequally: faster threads do more tasks. */
static void multiply(void *context, size_t task, int worker)
{
    const job *j = context;
    const lsi_row_products *p = j->p;
    const size_t begin = task * j->each;
    const size_t end = smaller(begin + j->each, p->out);
    (void)worker;
    const size_t stride = p->in * ls_dtype_size(p->w_dtype);
    if (j->portable) {
        j->kernels->portable->row_chains(
            j->y + begin, p->out, j->x, p->rows,
            (const float *)(const void *)(j->w + begin * stride), end - begin,
            p->in);
        for (size_t i = 0; i < p->rows && j->bias != NULL; i++)
            j->kernels->add(j->y + i * p->out + begin,
                            j->y + i * p->out + begin, j->bias + begin,
                            end - begin);
        return;
    }
    for (size_t r = begin; r < end; r += BLOCK) {
        const size_t n = smaller(BLOCK, end - r);
        for (size_t i = 0; i < p->rows; i++) {
            float *y = j->y + i * p->out + r;
            j->kernels->row_products(y, j->x + i * p->in, j->w + r * stride,
                                     p->w_dtype, n, p->in);
            if (j->bias != NULL)
                j->kernels->add(y, y, j->bias + r, n);
        }
    }
}

/* Columns of y at a time: the rows of w that fit in the memory for widening. */
static ls_status widen(const lsi_row_products *p, float *y, const float *x,
                       const void *w, const float *bias)
{
    void *block = NULL;
    const size_t most = WIDENED / p->in + 1;
    const size_t stride = p->in * ls_dtype_size(p->w_dtype);
    ls_status status = LS_OK;
    LS_TRY(lsi_alloc(&block, smaller(most, p->out) * p->in * sizeof(float),
                     LS_MEMORY_ACTIVATIONS, "weights converted to f32"));
    for (size_t r = 0; r < p->out && status == LS_OK; r += most) {
        const size_t n = smaller(most, p->out - r);
        const lsi_gemm_shape shape = {.m = (int64_t)p->rows,
                                      .n = (int64_t)n,
                                      .k = (int64_t)p->in,
                                      .lda = (int64_t)p->in,
                                      .ldb = (int64_t)p->in,
                                      .ldc = (int64_t)p->out,
                                      .b_transposed = true,
                                      .ab_dtype = LS_F32,
                                      .c_dtype = LS_F32};
        lsi_array_convert(block, LS_F32, (const char *)w + r * stride,
                          p->w_dtype, n * p->in);
        status = lsi_gemm_run(&shape, y + r, x, block,
                              bias != NULL ? bias + r : NULL);
    }
    lsi_free(block);
    return status;
}

ls_status lsi_row_products_run(const lsi_row_products *p, float *y,
                               const float *x, const void *w,
                               const float *bias_or_null)
{
    LSI_SPAN(KERNEL, "gemm_few_rows",
             p->in * p->out * ls_dtype_size(p->w_dtype),
             2 * p->rows * p->in * p->out);
    const size_t least = ELEMENTS / (p->in + 1) + 1;
    const size_t share = p->out / (TASKS * (size_t)lsi_threads()) + 1;
    const size_t rows = least > share ? least : share;
    job j = {.p = p,
             .kernels = lsi_kernels_get(),
             .y = y,
             .x = x,
             .w = w,
             .bias = bias_or_null,
             .portable = lsi_bits_are_portable() && p->w_dtype == LS_F32,
             .each = (rows + BLOCK - 1) / BLOCK * BLOCK};
    if (p->rows > LSI_FEW_ROWS && p->in > 0)
        return widen(p, y, x, w, bias_or_null);
    lsi_parallel_tasks((p->out + j.each - 1) / j.each, multiply, &j);
    return LS_OK;
}
