/*
 * Initial values. Element i of parameter p is a pure function of (seed, p, i):
 * it does not depend on ranks, threads or the other parameters.
 */
#include <math.h>

#include "autograd/params.h"
#include "base/rng.h"
#include "base/threads.h"
#include "tensor/tensor.h"

/* Streams of their own, apart from those of tapes (small rank numbers). */
#define STREAM_PARAMS  UINT64_C(0x706172616d730001)
#define STREAM_BUFFERS UINT64_C(0x706172616d730002)

enum { GRAIN = 1 << 12 };

typedef struct fill_job {
    lsi_rng_key key;
    uint64_t sub;
    ls_init init;
    float *out;
} fill_job;

/*
 * Winitzki's closed form (2 parts in 1000) and two steps of Halley's method,
 * each of which triples the correct digits.
 */
double lsi_erfinv(double u)
{
    const double a = 0.147;
    const double two_over_sqrt_pi = 1.12837916709551257390;
    const double l = log1p(-u * u);
    const double t = 2.0 / (3.14159265358979323846 * a) + 0.5 * l;
    double x = copysign(sqrt(sqrt(t * t - l / a) - t), u);
    for (int step = 0; step < 2; step++) {
        const double f = (erf(x) - u) / (two_over_sqrt_pi * exp(-x * x));
        x -= f / (1.0 + x * f);
    }
    return x;
}

static float uniform(const fill_job *job, uint64_t i)
{
    const double a = job->init.a, b = job->init.b;
    const float value =
        (float)(a + (b - a) * lsi_rng_uniform(job->key, job->sub, i));
    /* Rounding to f32 may reach the end that is not included. */
    return value < (float)b || a >= b ? value : nextafterf((float)b, (float)a);
}

/* Normal, cut at three deviations: 0.9973 = P(|x| < 3). */
static float truncated_normal(const fill_job *job, uint64_t i)
{
    const double edge = 0.99730020393673981095; /* erf(3 / sqrt 2) */
    const double sqrt2 = 1.41421356237309504880;
    const double u =
        edge * (2.0 * lsi_rng_uniform(job->key, job->sub, i) - 1.0);
    const double x = fmax(-3.0, fmin(3.0, sqrt2 * lsi_erfinv(u)));
    return (float)(job->init.a + job->init.b * x);
}

static float value_at(const fill_job *job, uint64_t i)
{
    switch (job->init.kind) {
    case LS_INIT_UNIFORM:
        return uniform(job, i);
    case LS_INIT_NORMAL:
        return (float)(job->init.a +
                       job->init.b * lsi_rng_normal(job->key, job->sub, i));
    case LS_INIT_TRUNCATED_NORMAL:
        return truncated_normal(job, i);
    case LS_INIT_CONSTANT:
        break;
    }
    return (float)job->init.a;
}

static void fill_range(void *context, size_t begin, size_t end)
{
    const fill_job *job = context;
    for (size_t i = begin; i < end; i++)
        job->out[i] = value_at(job, i);
}

void lsi_param_fill(const lsi_param *param, uint64_t seed, bool is_buffer)
{
    fill_job job = {
        .key = {.seed = seed,
                .stream = is_buffer ? STREAM_BUFFERS : STREAM_PARAMS},
        .sub = param->index,
        .init = param->init,
        .out = lsi_tensor_raw(param->tensor),
    };
    lsi_parallel_for((size_t)param->tensor->count, GRAIN, fill_range, &job);
}
