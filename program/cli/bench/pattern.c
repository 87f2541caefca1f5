/*
 * One period of every rank's data and of its reduction, in the element type:
 * filling and checking are then copies and comparisons of periods.
 */
#include "cli/bench/pattern.h"

#include <math.h>
#include <string.h>

#include "array/compute/array.h"
#include "base/error.h"
#include "base/memory.h"

enum { PERIOD = 1021 };

struct lsi_pattern {
    int ranks;
    ls_dtype dtype;
    ls_reduce_op op;
    size_t item;
    unsigned char *elements; /* a period for each rank, then the reduction */
};

/* The largest number up to which all whole numbers are exact. */
static double exact_limit(ls_dtype dtype)
{
    switch (dtype) {
    case LS_I8:
        return 127;
    case LS_U8:
        return 255;
    case LS_BF16:
        return 256;
    case LS_F16:
        return 2048;
    default:
        return 1 << 20;
    }
}

/* A whole number below `bound`, without a pattern in rank or index. */
static unsigned mixed(unsigned rank, unsigned index, unsigned bound)
{
    unsigned h = (index + 1) * 2654435761u ^ (rank + 1) * 2246822519u;
    h ^= h >> 15;
    h *= 3266489917u;
    h ^= h >> 13;
    return h % bound;
}

/*
 * For sums: if there are more ranks than the type can count, only some of them
 * contribute at any place.
 */
static double addend(const lsi_pattern *p, unsigned rank, unsigned index)
{
    const double limit = exact_limit(p->dtype);
    const unsigned stride = (unsigned)ceil(p->ranks / limit);
    const unsigned bound = (unsigned)(limit * stride / p->ranks);
    if ((rank + index) % stride != 0)
        return 0;
    return mixed(rank, index, (bound < 97 ? bound : 97) + 1);
}

/* For products: at most six twos meet. */
static double factor(const lsi_pattern *p, unsigned rank, unsigned index)
{
    return (rank + index) % (unsigned)p->ranks < index % 7 ? 2 : 1;
}

static double value_of(const lsi_pattern *p, int rank, int index)
{
    if (p->dtype == LS_BOOL)
        return mixed((unsigned)rank, (unsigned)index, 2);
    if (p->op == LS_REDUCE_PROD)
        return factor(p, (unsigned)rank, (unsigned)index);
    if (p->op == LS_REDUCE_SUM || p->op == LS_REDUCE_AVG)
        return addend(p, (unsigned)rank, (unsigned)index);
    return mixed((unsigned)rank, (unsigned)index, 120);
}

static double combine(ls_reduce_op op, double a, double b)
{
    switch (op) {
    case LS_REDUCE_PROD:
        return a * b;
    case LS_REDUCE_MIN:
        return fmin(a, b);
    case LS_REDUCE_MAX:
        return fmax(a, b);
    case LS_REDUCE_BAND:
        return (double)((unsigned)a & (unsigned)b);
    case LS_REDUCE_BOR:
        return (double)((unsigned)a | (unsigned)b);
    case LS_REDUCE_BXOR:
        return (double)((unsigned)a ^ (unsigned)b);
    default:
        return a + b;
    }
}

static unsigned char *period_of(const lsi_pattern *p, int rank)
{
    return p->elements + (size_t)rank * PERIOD * p->item;
}

static void compute(lsi_pattern *p)
{
    double reduced[PERIOD] = {0};
    double values[PERIOD];
    for (int rank = 0; rank < p->ranks; rank++) {
        for (int i = 0; i < PERIOD; i++) {
            values[i] = value_of(p, rank, i);
            reduced[i] =
                rank == 0 ? values[i] : combine(p->op, reduced[i], values[i]);
        }
        lsi_array_convert(period_of(p, rank), p->dtype, values, LS_F64, PERIOD);
    }
    for (int i = 0; i < PERIOD && p->op == LS_REDUCE_AVG; i++)
        reduced[i] /= p->ranks;
    lsi_array_convert(period_of(p, p->ranks), p->dtype, reduced, LS_F64,
                      PERIOD);
}

ls_status lsi_pattern_new(lsi_pattern **out, int ranks, ls_dtype dtype,
                          ls_reduce_op op)
{
    const size_t item = ls_dtype_size(dtype);
    const size_t bytes = ((size_t)ranks + 1) * PERIOD * item;
    lsi_pattern *p;
    LS_TRY(lsi_alloc(&p, sizeof(lsi_pattern) + bytes, LS_MEMORY_OTHER,
                     "data for checking a collective"));
    *p = (lsi_pattern){ranks, dtype, op, item, (unsigned char *)(p + 1)};
    compute(p);
    *out = p;
    return LS_OK;
}

void lsi_pattern_free(lsi_pattern **pattern)
{
    lsi_free(*pattern);
    *pattern = NULL;
}

/* The longest run from element `first` on that lies within one period. */
static size_t run_length(size_t first, size_t count)
{
    const size_t left = PERIOD - first % PERIOD;
    return left < count ? left : count;
}

void lsi_pattern_fill(const lsi_pattern *pattern, int rank, size_t first,
                      void *data, size_t count)
{
    const unsigned char *period = period_of(pattern, rank);
    const size_t item = pattern->item;
    unsigned char *to = data;
    while (count > 0) {
        const size_t n = run_length(first, count);
        memcpy(to, period + first % PERIOD * item, n * item);
        to += n * item;
        first += n;
        count -= n;
    }
}

/*
 * Averages: a sum that is exact, times a rounded 1/ranks, rounded: at most two
 * units in the last place away from the quotient rounded once.
 */
static double tolerance(const lsi_pattern *p)
{
    if (p->op != LS_REDUCE_AVG)
        return 0;
    switch (p->dtype) {
    case LS_F64:
        return 0x1p-51;
    case LS_F16:
        return 0x1p-9;
    case LS_BF16:
        return 0x1p-6;
    default:
        return 0x1p-22;
    }
}

static size_t count_wrong(const lsi_pattern *p, const unsigned char *expected,
                          const unsigned char *got, size_t n)
{
    double want[PERIOD];
    double have[PERIOD];
    size_t wrong = 0;
    const double relative = tolerance(p);
    lsi_array_convert(want, LS_F64, expected, p->dtype, n);
    lsi_array_convert(have, LS_F64, got, p->dtype, n);
    for (size_t i = 0; i < n; i++) /* NaN is wrong, too */
        wrong += !(fabs(have[i] - want[i]) <= relative * fabs(want[i]));
    return wrong;
}

size_t lsi_pattern_wrong(const lsi_pattern *pattern, int rank, size_t first,
                         const void *data, size_t count)
{
    const unsigned char *period = period_of(pattern, rank);
    const size_t item = pattern->item;
    const unsigned char *got = data;
    size_t wrong = 0;
    while (count > 0) {
        const size_t n = run_length(first, count);
        const unsigned char *expected = period + first % PERIOD * item;
        if (memcmp(got, expected, n * item) != 0)
            wrong += count_wrong(pattern, expected, got, n);
        got += n * item;
        first += n;
        count -= n;
    }
    return wrong;
}

size_t lsi_pattern_wrong_reduced(const lsi_pattern *pattern, size_t first,
                                 const void *data, size_t count)
{
    return lsi_pattern_wrong(pattern, pattern->ranks, first, data, count);
}
