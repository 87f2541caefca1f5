/*
 * Whether other processes use the CPUs that this one may use: the one rule by
 * which a measurement is in doubt. The load average would lag a minute behind,
 * and count what this process has just done itself.
 */
#ifndef LS_BASE_BUSY_H
#define LS_BASE_BUSY_H

#include <stdbool.h>

#include "base/cpuset.h"

/* CPU times up to a moment. */
typedef struct lsi_busy_sample {
    double all;  /* seconds of work of the CPUs that this process may use */
    double own;  /* of these by this process and its children that have ended */
    double wall; /* seconds */
} lsi_busy_sample;

/*
 * The seconds of work, user's, system's and stolen, that a text in the form of
 * /proc/stat has for these CPUs. False if it has none of them.
 */
bool lsi_busy_parse(const char *stat, const lsi_cpuset *cpus, double ticks,
                    double *seconds);

/* CPUs that others used between two samples, on average; never negative. */
double lsi_busy_others(const lsi_busy_sample *begin,
                       const lsi_busy_sample *end);

/* Whether others use more than a quarter of the available CPUs. */
bool lsi_busy_rule(double others, int cpus);

/*
 * Watches for half a second: whether others keep this machine busy. Their CPUs,
 * and those that this process may use, are the outputs. False where the kernel
 * does not tell.
 */
bool lsi_busy_now(double *others, int *cpus);

#endif
