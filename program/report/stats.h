/*
 * What a set of measured values is summarised by.
 */
#ifndef LS_REPORT_STATS_H
#define LS_REPORT_STATS_H

#include <stddef.h>

#include "lockstep/status.h"

typedef struct lsi_stats {
    size_t n;
    double min, median, mean, p99, max;
    double q1, q3; /* quartiles, between two values in proportion */
    double std;    /* of the sample (n - 1); 0 for fewer than two values */
    /*
     * Mean of sorted[int(.1 n) .. int(.9 n) - 1], or of all values if that is
     * empty: what an epoch usually takes.
     */
    double middle;
} lsi_stats;

/*
 * Summarises values[0..n-1], which stay as they are. The median of an even
 * number is the mean of the two in the middle; p99 is the smallest value that
 * at least 99 % are not above. n = 0 is LS_ERR_ARGUMENT.
 */
ls_status lsi_stats_of(const double *values, size_t n, lsi_stats *out);

#endif
