/* Functions of each element; see functions.h. */
#include "array/compute/functions.h"

#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "observe/spans.h"

enum {
    GRAIN = 1 << 12, /* elements worth a thread */
    BLOCK = 1 << 10  /* that stay in the first-level cache between two passes */
};

/* ---- the functions ------------------------------------------------------- */

static void forward_exp(const lsi_kernels *k, float *y, const float *a,
                        size_t n)
{
    k->exp(y, a, n);
}

/* dy y */
static void backward_exp(const lsi_kernels *k, float *dx, const float *dy,
                         const float *y, size_t n)
{
    k->mul(dx, dy, y, n);
}

static void forward_log(const lsi_kernels *k, float *y, const float *a,
                        size_t n)
{
    k->log(y, a, n);
}

/* dy / a */
static void backward_log(const lsi_kernels *k, float *dx, const float *dy,
                         const float *a, size_t n)
{
    k->div(dx, dy, a, n);
}

static void forward_sqrt(const lsi_kernels *k, float *y, const float *a,
                         size_t n)
{
    k->sqrt(y, a, n);
}

/* dy / (2 y) */
static void backward_sqrt(const lsi_kernels *k, float *dx, const float *dy,
                          const float *y, size_t n)
{
    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t m = n - i < BLOCK ? n - i : BLOCK;
        k->div(dx + i, dy + i, y + i, m);
        k->scale(dx + i, dx + i, 0.5F, m);
    }
}

static void forward_tanh(const lsi_kernels *k, float *y, const float *a,
                         size_t n)
{
    k->tanh(y, a, n);
}

/* dy (1 - y^2) */
static void backward_tanh(const lsi_kernels *k, float *dx, const float *dy,
                          const float *y, size_t n)
{
    k->tanh_backward(dx, dy, y, n);
}

static void forward_sigmoid(const lsi_kernels *k, float *y, const float *a,
                            size_t n)
{
    k->sigmoid(y, a, n);
}

/* dy y (1 - y) */
static void backward_sigmoid(const lsi_kernels *k, float *dx, const float *dy,
                             const float *y, size_t n)
{
    k->sigmoid_backward(dx, dy, y, n);
}

enum { OUTPUT, INPUT };

#define X(name, text, saves)                                                   \
    const lsi_unary lsi_unary_##name = {(saves) == INPUT, forward_##name,      \
                                        backward_##name};
LSI_UNARIES(X)
#undef X

/* ---- whole arrays -------------------------------------------------------- */

typedef struct function_job {
    const lsi_unary *function;
    float *out;
    const float *a, *saved;
} function_job;

static void forward_range(void *context, size_t begin, size_t end)
{
    const function_job *j = context;
    j->function->forward(lsi_kernels_get(), j->out + begin, j->a + begin,
                         end - begin);
}

void lsi_array_unary(const lsi_unary *function, float *y, const float *a,
                     size_t n)
{
    LSI_SPAN(KERNEL, "unary", 8 * n, n);
    function_job job = {.function = function, .out = y, .a = a};
    lsi_parallel_for(n, GRAIN, forward_range, &job);
}

static void backward_range(void *context, size_t begin, size_t end)
{
    const function_job *j = context;
    j->function->backward(lsi_kernels_get(), j->out + begin, j->a + begin,
                          j->saved + begin, end - begin);
}

void lsi_array_unary_backward(const lsi_unary *function, float *dx,
                              const float *dy, const float *saved, size_t n)
{
    LSI_SPAN(KERNEL, "unary_backward", 12 * n, 2 * n);
    function_job job = {function, dx, dy, saved};
    lsi_parallel_for(n, GRAIN, backward_range, &job);
}
