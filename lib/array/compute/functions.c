/* Functions of each element; see functions.h. */
#include "array/compute/functions.h"

#include <math.h>

#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "base/math.h"
#include "observe/spans.h"

enum {
    GRAIN = 1 << 12, /* elements worth a thread */
    BLOCK = 1 << 10  /* that stay in the first-level cache between two passes */
};

/* ---- the functions ------------------------------------------------------- */

static void forward_neg(const lsi_kernels *k, float *y, const float *a,
                        size_t n)
{
    k->scale(y, a, -1.0F, n);
}

/* -dy */
static void backward_neg(const lsi_kernels *k, float *dx, const float *dy,
                         const float *y, size_t n)
{
    (void)y;
    k->scale(dx, dy, -1.0F, n);
}

static void forward_abs(const lsi_kernels *k, float *y, const float *a,
                        size_t n)
{
    (void)k;
    for (size_t i = 0; i < n; i++)
        y[i] = fabsf(a[i]);
}

/* dy, -dy where a < 0, and 0 where a is 0; NaN where a is NaN. */
static void backward_abs(const lsi_kernels *k, float *dx, const float *dy,
                         const float *a, size_t n)
{
    (void)k;
    for (size_t i = 0; i < n; i++) {
        const float sign = a[i] > 0.0F ? 1.0F : a[i] < 0.0F ? -1.0F : a[i];
        dx[i] = dy[i] * sign;
    }
}

/* a s, s = 1 / (1 + e^-a) */
static void forward_silu(const lsi_kernels *k, float *y, const float *a,
                         size_t n)
{
    float s[BLOCK];
    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t m = n - i < BLOCK ? n - i : BLOCK;
        k->sigmoid(s, a + i, m);
        k->mul(y + i, a + i, s, m);
    }
}

/* dy s (1 + a (1 - s)), where 1 - s is 1 / (1 + e^a): nothing cancels. */
static void backward_silu(const lsi_kernels *k, float *dx, const float *dy,
                          const float *a, size_t n)
{
    float s[BLOCK], rest[BLOCK];
    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t m = n - i < BLOCK ? n - i : BLOCK;
        k->sigmoid(s, a + i, m);
        k->scale(rest, a + i, -1.0F, m);
        k->sigmoid(rest, rest, m);
        for (size_t j = 0; j < m; j++)
            dx[i + j] = dy[i + j] * s[j] * (1.0F + a[i + j] * rest[j]);
    }
}

/* a share, the normal distribution's below a. */
static void forward_gelu_erf(const lsi_kernels *k, float *y, const float *a,
                             size_t n)
{
    (void)k;
    for (size_t i = 0; i < n; i++) {
        const double x = (double)a[i];
        double density;
        y[i] = (float)(x * lsi_normal_share(x, &density));
    }
}

/* dy (share below a + a density at a) */
static void backward_gelu_erf(const lsi_kernels *k, float *dx, const float *dy,
                              const float *a, size_t n)
{
    (void)k;
    for (size_t i = 0; i < n; i++) {
        const double x = (double)a[i];
        double density;
        const double share = lsi_normal_share(x, &density);
        dx[i] = (float)((double)dy[i] * (share + x * density));
    }
}

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

/* ---- comparisons --------------------------------------------------------- */

typedef struct compare_job {
    uint8_t *y;
    const float *a, *b;
} compare_job;

#define X(name, operator)                                                      \
    static void name##_range(void *context, size_t begin, size_t end)          \
    {                                                                          \
        const compare_job *j = context;                                        \
        for (size_t i = begin; i < end; i++)                                   \
            j->y[i] = j->a[i] operator j->b[i];                                \
    }                                                                          \
    void lsi_array_##name(uint8_t *y, const float *a, const float *b,          \
                          size_t n)                                            \
    {                                                                          \
        LSI_SPAN(KERNEL, #name, 9 * n, n);                                     \
        lsi_parallel_for(n, GRAIN, name##_range, &(compare_job){y, a, b});     \
    }
LSI_COMPARISONS(X)
#undef X

/* ---- functions with numbers as arguments --------------------------------- */

typedef struct number_job {
    float *out;
    const float *dy, *a;
    double exponent;
    lsi_clamp bounds;
} number_job;

static void pow_range(void *context, size_t begin, size_t end)
{
    const number_job *j = context;
    const float exponent = (float)j->exponent;
    for (size_t i = begin; i < end; i++)
        j->out[i] = lsi_powf(j->a[i], exponent);
}

static void square_range(void *context, size_t begin, size_t end)
{
    const number_job *j = context;
    lsi_kernels_get()->mul(j->out + begin, j->a + begin, j->a + begin,
                           end - begin);
}

void lsi_array_pow(float *y, const float *a, double exponent, size_t n)
{
    LSI_SPAN(KERNEL, "pow", 8 * n, n);
    number_job job = {.out = y, .a = a, .exponent = exponent};
    lsi_parallel_for(n, GRAIN, exponent == 2.0 ? square_range : pow_range,
                     &job);
}

static void pow_backward_range(void *context, size_t begin, size_t end)
{
    const number_job *j = context;
    const float factor = (float)j->exponent;
    const float exponent = (float)(j->exponent - 1.0);
    for (size_t i = begin; i < end; i++) {
        const float slope =
            exponent == 1.0F ? j->a[i] : lsi_powf(j->a[i], exponent);
        j->out[i] = factor == 0.0F ? 0.0F : j->dy[i] * factor * slope;
    }
}

void lsi_array_pow_backward(float *dx, const float *dy, const float *a,
                            double exponent, size_t n)
{
    LSI_SPAN(KERNEL, "pow_backward", 12 * n, 3 * n);
    number_job job = {.out = dx, .dy = dy, .a = a, .exponent = exponent};
    lsi_parallel_for(n, GRAIN, pow_backward_range, &job);
}

static void clamp_range(void *context, size_t begin, size_t end)
{
    const number_job *j = context;
    const lsi_clamp to = j->bounds;
    for (size_t i = begin; i < end; i++) {
        const float a = j->a[i];
        j->out[i] = a < to.min ? to.min : a > to.max ? to.max : a;
    }
}

void lsi_array_clamp(float *y, const float *a, lsi_clamp bounds, size_t n)
{
    LSI_SPAN(KERNEL, "clamp", 8 * n, n);
    number_job job = {.out = y, .a = a, .bounds = bounds};
    lsi_parallel_for(n, GRAIN, clamp_range, &job);
}

static void clamp_backward_range(void *context, size_t begin, size_t end)
{
    const number_job *j = context;
    const lsi_clamp to = j->bounds;
    for (size_t i = begin; i < end; i++) {
        const bool inside = j->a[i] >= to.min && j->a[i] <= to.max;
        j->out[i] = inside ? j->dy[i] : 0.0F;
    }
}

void lsi_array_clamp_backward(float *dx, const float *dy, const float *a,
                              lsi_clamp bounds, size_t n)
{
    LSI_SPAN(KERNEL, "clamp_backward", 12 * n, n);
    number_job job = {.out = dx, .dy = dy, .a = a, .bounds = bounds};
    lsi_parallel_for(n, GRAIN, clamp_backward_range, &job);
}
