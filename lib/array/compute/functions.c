/* Functions of each element; see functions.h. */
#include "array/compute/functions.h"
#include "base/spans.h"

#include "array/compute/threads.h"
#include "array/kernels/kernels.h"

enum {
    GRAIN = 1 << 12, /* elements worth a thread */
    BLOCK = 1 << 10  /* that stay in the first-level cache between two passes */
};

typedef struct function_job {
    lsi_unary function;
    float *out;
    const float *a, *saved;
} function_job;

static void forward_range(void *context, size_t begin, size_t end)
{
    const function_job *j = context;
    const lsi_kernels *k = lsi_kernels_get();
    void (*const kernels[])(float *, const float *,
                            size_t) = {[LSI_UNARY_EXP] = k->exp,
                                       [LSI_UNARY_LOG] = k->log,
                                       [LSI_UNARY_SQRT] = k->sqrt,
                                       [LSI_UNARY_TANH] = k->tanh,
                                       [LSI_UNARY_SIGMOID] = k->sigmoid};
    kernels[j->function](j->out + begin, j->a + begin, end - begin);
}

void lsi_array_unary(lsi_unary function, float *y, const float *a, size_t n)
{
    LSI_SPAN(KERNEL, "unary", 8 * n, n);
    function_job job = {.function = function, .out = y, .a = a};
    lsi_parallel_for(n, GRAIN, forward_range, &job);
}

/* dy / (2 y) */
static void sqrt_backward(const lsi_kernels *k, float *dx, const float *dy,
                          const float *y, size_t n)
{
    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t m = n - i < BLOCK ? n - i : BLOCK;
        k->div(dx + i, dy + i, y + i, m);
        k->scale(dx + i, dx + i, 0.5F, m);
    }
}

static void backward_range(void *context, size_t begin, size_t end)
{
    const function_job *j = context;
    const lsi_kernels *k = lsi_kernels_get();
    float *dx = j->out + begin;
    const float *dy = j->a + begin, *saved = j->saved + begin;
    const size_t n = end - begin;
    switch (j->function) {
    case LSI_UNARY_EXP:
        k->mul(dx, dy, saved, n);
        break;
    case LSI_UNARY_LOG:
        k->div(dx, dy, saved, n);
        break;
    case LSI_UNARY_SQRT:
        sqrt_backward(k, dx, dy, saved, n);
        break;
    case LSI_UNARY_TANH:
        k->tanh_backward(dx, dy, saved, n);
        break;
    case LSI_UNARY_SIGMOID:
        k->sigmoid_backward(dx, dy, saved, n);
        break;
    }
}

void lsi_array_unary_backward(lsi_unary function, float *dx, const float *dy,
                              const float *saved, size_t n)
{
    LSI_SPAN(KERNEL, "unary_backward", 12 * n, 2 * n);
    function_job job = {function, dx, dy, saved};
    lsi_parallel_for(n, GRAIN, backward_range, &job);
}
