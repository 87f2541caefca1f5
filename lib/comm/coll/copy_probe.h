/*
 * Whether the kernel's copy from another process is faster here than two copies
 * through the windows: measured, because it depends on the processor, the
 * kernel and the hypervisor. Both move the same bytes, so no result depends on
 * the answer.
 */
#ifndef LS_COMM_COLL_COPY_PROBE_H
#define LS_COMM_COLL_COPY_PROBE_H

#include "comm/state/state.h"

/* Nanoseconds that one rank took for the same bytes; NAN: it has no answer. */
typedef struct lsi_copy_times {
    double kernel, windows;
} lsi_copy_times;

/* Whether the kernel's copy was faster for the n ranks together. */
bool lsi_copy_times_pay(const lsi_copy_times *times, int n);

/*
 * Measures for at most 5 ms; the same answer on all ranks. Collective, for the
 * first group of a job on a node, after all members have entered and before its
 * windows are used. If the ranks have too few CPUs, it measures nothing, and
 * *pays is false. This holds for parts of the group, too: the other ranks go on
 * using those CPUs.
 */
ls_status lsi_copy_probe(ls_group *group, bool *pays);

#endif
