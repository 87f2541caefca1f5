/*
 * For LD_PRELOAD: the functions of the C library whose rounding it chooses,
 * each one unit of f32's last place too large. (One unit of f64 would hardly
 * ever show after rounding to f32.) At its end the process adds the number of
 * calls to the file that OFF_BY_ONE_CALLS names.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_long calls;

static double larger(double x)
{
    return x + fabs(x) * 0x1p-23;
}

#define NEXT(name)                                                             \
    static __typeof__(&(name)) next;                                           \
    if (next == NULL)                                                          \
        *(void **)&next = dlsym(RTLD_NEXT, #name);                             \
    atomic_fetch_add(&calls, 1)

#define FUNCTION(name)                                                         \
    double name(double x)                                                      \
    {                                                                          \
        NEXT(name);                                                            \
        return larger(next(x));                                                \
    }                                                                          \
    float name##f(float x)                                                     \
    {                                                                          \
        NEXT(name##f);                                                         \
        return nextafterf(next(x), INFINITY);                                  \
    }

#define FUNCTION_2(name)                                                       \
    double name(double x, double y)                                            \
    {                                                                          \
        NEXT(name);                                                            \
        return larger(next(x, y));                                             \
    }                                                                          \
    float name##f(float x, float y)                                            \
    {                                                                          \
        NEXT(name##f);                                                         \
        return nextafterf(next(x, y), INFINITY);                               \
    }

FUNCTION(exp)
FUNCTION(exp2)
FUNCTION(exp10)
FUNCTION(expm1)
FUNCTION(log)
FUNCTION(log2)
FUNCTION(log10)
FUNCTION(log1p)
FUNCTION(sin)
FUNCTION(cos)
FUNCTION(tan)
FUNCTION(asin)
FUNCTION(acos)
FUNCTION(atan)
FUNCTION(sinh)
FUNCTION(cosh)
FUNCTION(tanh)
FUNCTION(erf)
FUNCTION(erfc)
FUNCTION(cbrt)
FUNCTION(lgamma)
FUNCTION(tgamma)
FUNCTION_2(pow)
FUNCTION_2(atan2)
FUNCTION_2(hypot)

void sincos(double x, double *sine, double *cosine)
{
    *sine = sin(x);
    *cosine = cos(x);
}

void sincosf(float x, float *sine, float *cosine)
{
    *sine = sinf(x);
    *cosine = cosf(x);
}

__attribute__((destructor)) static void write_calls(void)
{
    const char *path = getenv("OFF_BY_ONE_CALLS");
    FILE *file = path != NULL ? fopen(path, "a") : NULL;
    if (file == NULL)
        return;
    fprintf(file, "%ld\n", atomic_load(&calls));
    fclose(file);
}
