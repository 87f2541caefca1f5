/*
 * Which CPUs some ranks may use, and what that leaves each of them if others
 * are on the same machine, whatever container or network namespace those are
 * in.
 */
#ifndef LS_BASE_CPU_CLAIM_H
#define LS_BASE_CPU_CLAIM_H

#include <stddef.h>

#include "base/cpuset.h"

typedef struct lsi_cpu_claim {
    uint64_t machine;  /* equal within one boot of one kernel; 0: not known */
    uint64_t quota_of; /* the control group that has the quota; 0: none */
    double quota;      /* of all that are in that group, in CPUs */
    int ranks;         /* that divide these CPUs evenly */
    lsi_cpuset cpus;
} lsi_cpu_claim;

/* The CPUs this process may use, for that number of ranks. */
void lsi_cpu_claim_here(int ranks, lsi_cpu_claim *out);

/*
 * The CPUs of one rank of all[which]. A CPU that k ranks of its machine may use
 * counts 1/k, and a quota is divided among the ranks of its control group. At
 * least 1; 0 if no other claim is known to be of the same machine.
 */
int lsi_cpu_claim_share(const lsi_cpu_claim *all, size_t n, size_t which);

#endif
