/* Initial values of parameters. */
#include "model/autograd/params.h"

#include <math.h>

#include "array/compute/threads.h"
#include "base/error.h"
#include "base/math.h"
#include "base/memory.h"
#include "base/rng.h"
#include "model/tensor/tensor.h"

/* Streams separate from those of tapes, which are small rank numbers. */
#define STREAM_PARAMS  UINT64_C(0x706172616d730001)
#define STREAM_BUFFERS UINT64_C(0x706172616d730002)

enum { GRAIN = 1 << 12 };

typedef struct fill_job {
    lsi_rng_key key;
    uint64_t sub;
    ls_init init;
    size_t first; /* the element that goes to out[0] */
    float *out;
} fill_job;

/* c[0] + c[1] x + ... + c[7] x^7 */
static double polynomial(const double c[8], double x)
{
    double sum = c[7];
    for (int i = 6; i >= 0; i--)
        sum = sum * x + c[i];
    return sum;
}

/*
 * The inverse of the normal distribution by Wichura (Applied Statistics 37,
 * 1988, algorithm AS 241), of which only the parts for probabilities above 1e-7
 * are needed. Most values need no logarithm.
 */
double lsi_erfinv(double u)
{
    static const double middle_over[8] = {
        3.3871328727963666080e0,  1.3314166789178437745e+2,
        1.9715909503065514427e+3, 1.3731693765509461125e+4,
        4.5921953931549871457e+4, 6.7265770927008700853e+4,
        3.3430575583588128105e+4, 2.5090809287301226727e+3};
    static const double middle_under[8] = {1.0,
                                           4.2313330701600911252e+1,
                                           6.8718700749205790830e+2,
                                           5.3941960214247511077e+3,
                                           2.1213794301586595867e+4,
                                           3.9307895800092710610e+4,
                                           2.8729085735721942674e+4,
                                           5.2264952788528545610e+3};
    static const double outer_over[8] = {
        1.42343711074968357734e0,  4.63033784615654529590e0,
        5.76949722146069140550e0,  3.64784832476320460504e0,
        1.27045825245236838258e0,  2.41780725177450611770e-1,
        2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static const double outer_under[8] = {1.0,
                                          2.05319162663775882187e0,
                                          1.67638483018380384940e0,
                                          6.89767334985100004550e-1,
                                          1.48103976427480074590e-1,
                                          1.51986665636164571966e-2,
                                          5.47593808499534494600e-4,
                                          1.05075007164441684324e-9};
    const double sqrt_half = 0.70710678118654752440;
    const double q = 0.5 * u; /* the probability, from the middle */
    if (fabs(q) <= 0.425) {
        const double r = 0.180625 - q * q;
        return sqrt_half * q * polynomial(middle_over, r) /
               polynomial(middle_under, r);
    }
    const double r = sqrt(-lsi_ln(0.5 - fabs(q))) - 1.6;
    const double x = polynomial(outer_over, r) / polynomial(outer_under, r);
    return copysign(sqrt_half * x, u);
}

static float uniform(const fill_job *job, uint64_t i)
{
    const double a = job->init.a, b = job->init.b;
    const float value =
        (float)(a + (b - a) * lsi_rng_uniform(job->key, job->sub, i));
    /* Rounding to f32 may reach the excluded end. */
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
        job->out[i] = value_at(job, job->first + i);
}

void lsi_param_fill(const lsi_param *param, lsi_range elements, float *out)
{
    fill_job job = {
        .key = {.seed = param->set->storage.seed,
                .stream = param->is_buffer ? STREAM_BUFFERS : STREAM_PARAMS},
        .sub = param->index,
        .init = param->init,
        .first = elements.begin,
        .out = out,
    };
    if (param->tensor->dtype == LS_F32)
        lsi_parallel_for(lsi_range_size(elements), GRAIN, fill_range, &job);
}
