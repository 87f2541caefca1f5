/*
 * Variables of the environment for libraries that are configured by nothing
 * else, in a process whose other threads may read the environment at the same
 * time. setenv and unsetenv must not be called there: before glibc 2.41 they
 * move or free what getenv is reading.
 *
 * Each change here is a new array of pointers, published in one piece. The old
 * one stays as it was, and in memory for ever, for whoever still reads it: some
 * kilobytes a call, so call these a few times in a process only. A thread of
 * the program that calls setenv at the same time is not safe, as ever.
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
