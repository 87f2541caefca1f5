/*
 * How much memory a process really takes.
 */
#ifndef LS_TEST_MEMORY_USE_H
#define LS_TEST_MEMORY_USE_H

#include <stdbool.h>
#include <stdio.h>

#include "testing.h"

/* Sanitizers keep notes about memory in more memory. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool memory_has_shadows = true;
#else
static const bool memory_has_shadows = false;
#endif

/* The most memory of this process so far; or, with `restart`, from now on. */
static inline double peak_bytes(bool restart)
{
    char line[256];
    double kilobytes = 0;
    FILE *file = fopen("/proc/self/clear_refs", "w");
    CHECK(file != NULL);
    if (restart)
        fputs("5", file);
    fclose(file);
    file = fopen("/proc/self/status", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL)
        (void)sscanf(line, "VmHWM: %lf kB", &kilobytes);
    fclose(file);
    return kilobytes * 1024;
}

/* This process's proportional share of all memory. */
static inline double proportional_bytes(void)
{
    FILE *const file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    double kilobytes = 0;
    CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL)
        (void)sscanf(line, "Pss: %lf kB", &kilobytes);
    fclose(file);
    return kilobytes * 1024;
}

#endif
