/*
 * Whether stores into the windows should bypass the caches (comm/node/copy.h),
 * and whether the kernel's copy from another process is faster than two copies
 * through the windows. Both are measured, because they depend on the processor,
 * on the CPUs that the ranks have got, on the kernel and on the hypervisor. All
 * ways move the same bytes, so no result depends on the answers.
 */
#ifndef LS_COMM_COLL_COPY_PROBE_H
#define LS_COMM_COLL_COPY_PROBE_H

#include "comm/state/state.h"

/* Nanoseconds that one rank took for the same bytes; NAN: it has no answer. */
typedef struct lsi_copy_times {
    double cached, past; /* through the windows */
    double kernel;
} lsi_copy_times;

typedef struct lsi_copy_answer {
    bool past_caches;
    lsi_copying copying;
} lsi_copy_answer;

/* For the n ranks together; `usual` is past_caches without all times. */
lsi_copy_answer lsi_copy_times_answer(const lsi_copy_times *times, int n,
                                      bool usual);

/*
 * Measures for at most 5 ms, and sets the node's past_caches. The same answers
 * on all ranks, which all give the same `with_kernel`. Collective, for the
 * first group of a job on a node, after all members have entered and before its
 * windows are used. With more ranks than CPUs the kernel's copy is not
 * measured, and with more than 8 ranks then nothing. Without times the answers
 * are the processor's (lsi_cpu_stores_wait) and false. This holds for parts of
 * the group, too: the other ranks go on using those CPUs.
 */
ls_status lsi_copy_probe(ls_group *group, bool with_kernel,
                         lsi_copy_answer *answer);

#endif
