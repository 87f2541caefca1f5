/*
 * Which cpus a rank may use: neighbouring ones, disjoint from other ranks'.
 */
#ifndef LS_LAUNCH_BINDING_H
#define LS_LAUNCH_BINDING_H

#include <stddef.h>

#include "base/partition.h"

/* One hardware thread, as the operating system numbers it, and its core. */
typedef struct lsi_hardware_thread {
    int cpu, core;
} lsi_hardware_thread;

/*
 * The cpus that this process may use, those close to each other next to each
 * other. *out is freed by the caller with free(). 0 if they cannot be found.
 */
size_t lsi_binding_cpus(lsi_hardware_thread **out);

/*
 * The cpus that rank `rank` of `ranks` gets: whole cores if there is at least
 * one for each, else single cpus; an empty range if there are too few.
 */
lsi_range lsi_binding_share(const lsi_hardware_thread *cpus, size_t n,
                            int ranks, int rank);

/* Binds this process to n cpus (>= 1). If it cannot be done, it is not. */
void lsi_binding_apply(const lsi_hardware_thread *cpus, size_t n);

#endif
