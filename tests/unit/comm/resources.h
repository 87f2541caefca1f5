/*
 * The system resources that a process holds, for tests that nothing is left.
 */
#ifndef LS_TEST_COMM_RESOURCES_H
#define LS_TEST_COMM_RESOURCES_H

#include <stdbool.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool is_sanitized = true; /* and so memory is kept for a time */
#else
static const bool is_sanitized = false;
#endif

/* Of a folder, such as /proc/self/fd or /proc/self/task. */
int count_entries(const char *path);

long resident_kb(void);

#endif
