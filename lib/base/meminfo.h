/*
 * Memory of the machine, as the kernel reports it.
 */
#ifndef LS_BASE_MEMINFO_H
#define LS_BASE_MEMINFO_H

#include <stdbool.h>
#include <stdint.h>

/* The bytes that a line of /proc/meminfo's text says; -1 without that line. */
int64_t lsi_meminfo_parse(const char *text, const char *key);

/*
 * Memory that this process could get without swapping, within the limits of its
 * control groups; -1 if the kernel does not say.
 */
int64_t lsi_memory_available(void);

/* The memory of this process that is in use; -1 if the kernel does not say. */
int64_t lsi_memory_resident(void);

/* The pages of files of that, such as the code of libraries; -1 as above. */
int64_t lsi_memory_resident_files(void);

/*
 * The most of it since the process began, or since the reset, which is false if
 * the kernel has none; -1 if it does not say.
 */
int64_t lsi_memory_resident_peak(void);
bool lsi_memory_reset_resident_peak(void);

#endif
