/*
 * The conditions of a measurement of collectives: the processor, the caches
 * that its CPUs share, the CPUs that the ranks use, and the version of the
 * library.
 */
#ifndef LS_COMM_API_MACHINE_KEY_H
#define LS_COMM_API_MACHINE_KEY_H

#include <limits.h>
#include <stdbool.h>

#include "base/cpuset.h"

typedef struct lsi_machine_key {
    char machine[256];   /* "AMD EPYC 9654, CPUs 0-191, 0123456789abcdef" */
    char path[PATH_MAX]; /* of its selection table in the cache folder */
} lsi_machine_key;

/* For ranks on these CPUs. False without a cache folder. */
bool lsi_machine_key_of(const lsi_cpuset *cpus, lsi_machine_key *out);

#endif
