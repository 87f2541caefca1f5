/*
 * Numbers of any element type as float64, for tests that treat all types alike.
 */
#ifndef LS_TEST_CONFORMANCE_NUMBERS_H
#define LS_TEST_CONFORMANCE_NUMBERS_H

#include <stdbool.h>

#include "lockstep/types.h"

void number_store(void *data, size_t i, ls_dtype dtype, double value);
double number_load(const void *data, size_t i, ls_dtype dtype);

bool is_float(ls_dtype dtype);

/* Half a unit in the last place, relative: 2^-24 for f32. */
double rounding_of(ls_dtype dtype);

/* The same of the type in which a reduction is computed. */
double rounding_of_sums(ls_dtype dtype);

/* Reduces n numbers in float64; LS_REDUCE_AVG divides. */
double reduce_numbers(const double *values, int n, ls_reduce_op op);

/* The same of numbers that are 0 or 1, as truth values. */
double reduce_truths(const double *values, int n, ls_reduce_op op);

#endif
