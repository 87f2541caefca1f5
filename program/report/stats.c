/*
 * Order statistics and means of measured values.
 */
#include "report/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double mean_of(const double *values, size_t begin, size_t end)
{
    double sum = 0;
    for (size_t i = begin; i < end; i++)
        sum += values[i];
    return sum / (double)(end - begin);
}

/* Computed around the mean, which avoids cancellation. */
static double deviation(const double *values, size_t n, double mean)
{
    if (n < 2)
        return 0;
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    return sqrt(squares / (double)(n - 1));
}

/* As numpy.quantile computes it. */
static double quantile(const double *sorted, size_t n, double at)
{
    const double place = at * (double)(n - 1);
    const size_t below = (size_t)place;
    const size_t above = below + 1 < n ? below + 1 : below;
    return sorted[below] +
           (place - (double)below) * (sorted[above] - sorted[below]);
}

static void summarise(const double *sorted, size_t n, lsi_stats *out)
{
    /* In integers: int(.9 * n) in floating point is sometimes off by one. */
    const size_t begin = n / 10;
    const size_t end = n * 9 / 10;
    const size_t p99 = (n * 99 + 99) / 100;
    const double mean = mean_of(sorted, 0, n);
    *out = (lsi_stats){
        .n = n,
        .min = sorted[0],
        .median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2,
        .mean = mean,
        .p99 = sorted[p99 - 1],
        .max = sorted[n - 1],
        .q1 = quantile(sorted, n, 0.25),
        .q3 = quantile(sorted, n, 0.75),
        .std = deviation(sorted, n, mean),
        .middle = begin < end ? mean_of(sorted, begin, end) : mean,
    };
}

ls_status lsi_stats_of(const double *values, size_t n, lsi_stats *out)
{
    if (n == 0)
        return lsi_fail(LS_ERR_ARGUMENT, "statistics need at least one value");
    void *block;
    LS_TRY(lsi_alloc(&block, n * sizeof(double), LS_MEMORY_OTHER,
                     "values to summarise"));
    double *sorted = block;
    memcpy(sorted, values, n * sizeof(double));
    qsort(sorted, n, sizeof(double), compare);
    summarise(sorted, n, out);
    lsi_free(block);
    return LS_OK;
}
