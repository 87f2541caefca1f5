/*
 * Memory of the machine, as the kernel reports it.
 */
#ifndef LS_BASE_MEMINFO_H
#define LS_BASE_MEMINFO_H

#include <stdint.h>

/* The bytes that a line of /proc/meminfo's text says; -1 without that line. */
int64_t lsi_meminfo_parse(const char *text, const char *key);

/*
 * What this process could get without swapping, within the limits of its
 * control groups; -1 if the kernel does not say.
 */
int64_t lsi_memory_available(void);

/* The memory of this process that is in use; -1 if the kernel does not say. */
int64_t lsi_memory_resident(void);

#endif
