/*
 * Environment variables for libraries that have no other configuration. Other
 * threads may read the environment at the same time, so setenv and unsetenv
 * must not be called: before glibc 2.41 they move or free memory that getenv
 * reads.
 *
 * Each change here is a new array of pointers, published in one piece. The old
 * one stays unchanged, and in memory for ever, for threads that still read it.
 * This costs some kilobytes per call, so a process calls these a few times
 * only. As always, a thread that calls setenv at the same time is not safe.
 */
#ifndef LS_BASE_VARIABLES_H
#define LS_BASE_VARIABLES_H

#include <stdbool.h>

typedef struct lsi_variable {
    const char *name, *value;
    bool added; /* by lsi_variables_add, which found none */
} lsi_variable;

/* Sets variables that are not set. Adds none if memory runs out. */
void lsi_variables_add(lsi_variable *variables, int n);

/* Removes those that were added. */
void lsi_variables_remove(lsi_variable *variables, int n);

#endif
