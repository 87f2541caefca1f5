/* Functions of f32 blocks over arrays of any real types; see mixed.h. */
#include "array/compute/mixed.h"
#include "observe/spans.h"

#include "array/compute/threads.h"
#include "array/kernels/kernels.h"

enum { GRAIN = 1 << 12, BLOCK = 512, ARRAYS = 5 };

/* Of f32 blocks; it computes each element alone. */
typedef void (*block_fn)(const lsi_kernels *k, float *const *p, size_t n);

typedef struct mixed_job {
    lsi_mixed arrays[ARRAYS]; /* those that are written, then those read */
    int n_out, n_arrays;
    bool accumulate; /* the result is read, too */
    block_fn fn;
    bool any_half;
} mixed_job;

static void *at_element(const lsi_mixed *array, size_t at)
{
    return (char *)array->data + at * ls_dtype_size(array->dtype);
}

static void run_block(const mixed_job *j, size_t at, size_t n)
{
    float blocks[ARRAYS][BLOCK];
    float *pointers[ARRAYS];
    const lsi_kernels *k = lsi_kernels_get();
    for (int i = 0; i < j->n_arrays; i++) {
        const lsi_mixed *array = &j->arrays[i];
        pointers[i] = at_element(array, at);
        if (array->dtype == LS_F32)
            continue;
        if (i >= j->n_out || j->accumulate)
            k->convert(blocks[i], LS_F32, pointers[i], array->dtype, n);
        pointers[i] = blocks[i];
    }
    j->fn(k, pointers, n);
    for (int i = 0; i < j->n_out; i++) {
        const lsi_mixed *array = &j->arrays[i];
        if (array->dtype != LS_F32)
            k->convert(at_element(array, at), array->dtype, blocks[i], LS_F32,
                       n);
    }
}

static void run_range(void *context, size_t begin, size_t end)
{
    const mixed_job *j = context;
    const size_t block = j->any_half ? BLOCK : end - begin;
    for (size_t at = begin; at < end; at += block)
        run_block(j, at, end - at < block ? end - at : block);
}

static void run_mixed(mixed_job j, size_t n)
{
    for (int i = 0; i < j.n_arrays; i++)
        j.any_half = j.any_half || j.arrays[i].dtype != LS_F32;
    lsi_parallel_for(n, GRAIN, run_range, &j);
}

static void add(const lsi_kernels *k, float *const *p, size_t n)
{
    k->add(p[0], p[1], p[2], n);
}

void lsi_mixed_add(lsi_mixed y, lsi_mixed a, lsi_mixed b, size_t n)
{
    LSI_SPAN(KERNEL, "add",
             n * (lsi_mixed_size(y) + lsi_mixed_size(a) + lsi_mixed_size(b)),
             n);
    run_mixed((mixed_job){{y, a, b}, 1, 3, .fn = add}, n);
}

static void relu(const lsi_kernels *k, float *const *p, size_t n)
{
    k->relu(p[0], p[1], n);
}

void lsi_mixed_relu(lsi_mixed y, lsi_mixed x, size_t n)
{
    LSI_SPAN(KERNEL, "relu", n * (lsi_mixed_size(y) + lsi_mixed_size(x)), n);
    run_mixed((mixed_job){{y, x}, 1, 2, .fn = relu}, n);
}

static void relu_backward(const lsi_kernels *k, float *const *p, size_t n)
{
    k->relu_backward(p[0], p[1], p[2], n, false);
}

void lsi_mixed_relu_backward(lsi_mixed dx, lsi_mixed dy, lsi_mixed y, size_t n)
{
    LSI_SPAN(KERNEL, "relu_backward",
             n * (lsi_mixed_size(dx) + lsi_mixed_size(dy) + lsi_mixed_size(y)),
             n);
    run_mixed((mixed_job){{dx, dy, y}, 1, 3, .fn = relu_backward}, n);
}

static void swiglu(const lsi_kernels *k, float *const *p, size_t n)
{
    k->swiglu(p[0], p[1], p[2], n);
}

void lsi_mixed_swiglu(lsi_mixed y, lsi_mixed a, lsi_mixed b, size_t n)
{
    LSI_SPAN(KERNEL, "swiglu",
             n * (lsi_mixed_size(y) + lsi_mixed_size(a) + lsi_mixed_size(b)),
             5 * n);
    run_mixed((mixed_job){{y, a, b}, 1, 3, .fn = swiglu}, n);
}

static void swiglu_backward(const lsi_kernels *k, float *const *p, size_t n)
{
    k->swiglu_backward(p[0], p[1], p[2], p[3], p[4], n);
}

void lsi_mixed_swiglu_backward(const lsi_mixed *out, const lsi_mixed *in,
                               size_t n)
{
    LSI_SPAN(KERNEL, "swiglu_backward",
             n * (lsi_mixed_size(out[0]) + lsi_mixed_size(out[1]) +
                  lsi_mixed_size(in[0]) + lsi_mixed_size(in[1]) +
                  lsi_mixed_size(in[2])),
             10 * n);
    run_mixed(
        (mixed_job){
            {out[0], out[1], in[0], in[1], in[2]}, 2, 5, .fn = swiglu_backward},
        n);
}

static void gelu(const lsi_kernels *k, float *const *p, size_t n)
{
    k->gelu(p[0], p[1], n);
}

void lsi_mixed_gelu(lsi_mixed y, lsi_mixed x, size_t n)
{
    LSI_SPAN(KERNEL, "gelu", n * (lsi_mixed_size(y) + lsi_mixed_size(x)),
             10 * n);
    run_mixed((mixed_job){{y, x}, 1, 2, .fn = gelu}, n);
}

static void gelu_backward(const lsi_kernels *k, float *const *p, size_t n)
{
    k->gelu_backward(p[0], p[1], p[2], n, false);
}

static void gelu_backward_add(const lsi_kernels *k, float *const *p, size_t n)
{
    k->gelu_backward(p[0], p[1], p[2], n, true);
}

void lsi_mixed_gelu_backward(lsi_mixed dx, lsi_mixed dy, lsi_mixed x, size_t n,
                             bool accumulate)
{
    LSI_SPAN(KERNEL, "gelu_backward",
             n * (lsi_mixed_size(dx) + lsi_mixed_size(dy) + lsi_mixed_size(x)),
             15 * n);
    const block_fn fn = accumulate ? gelu_backward_add : gelu_backward;
    run_mixed((mixed_job){{dx, dy, x}, 1, 3, accumulate, .fn = fn}, n);
}
