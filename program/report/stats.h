/* Summary of a set of measured values. */
#ifndef LS_REPORT_STATS_H
#define LS_REPORT_STATS_H

#include <stddef.h>

#include "lockstep/status.h"

typedef struct lsi_stats {
    size_t n;
    double min, median, mean, p99, max;
    double q1, q3; /* quartiles, interpolated between two values */
    double std;    /* of the sample (n - 1); 0 for fewer than two values */
    /*
     * Mean of sorted[int(.1 n) .. int(.9 n) - 1], or of all values if this
     * range is empty: the usual time of an epoch.
     */
    double middle;
} lsi_stats;

/*
 * Summarises values[0..n-1], which are not changed. The median of an even
 * number of values is the mean of the two in the middle. The p99 is the
 * smallest value with at least 99 % of the values at or below it.
 * LS_ERR_ARGUMENT for n = 0.
 */
ls_status lsi_stats_of(const double *values, size_t n, lsi_stats *out);

#endif
