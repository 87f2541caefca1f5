/*
 * Elements of any type, one at a time, through long double: its 64 bits of
 * significand hold every value of every type.
 */
#ifndef TESTS_KERNELS_NUMBERS_H
#define TESTS_KERNELS_NUMBERS_H

#include <stdbool.h>

#include "lockstep/types.h"

bool is_float(ls_dtype dtype);

/* Bits of the significand, with the leading one: 24 for f32. Floats only. */
int significand_bits(ls_dtype dtype);

long double get_number(const void *array, ls_dtype dtype, size_t i);

/*
 * Stores the value rounded to nearest even or, in an integer, cut towards zero
 * and limited to its range; NaN as 0 there.
 */
void put_number(void *array, ls_dtype dtype, size_t i, long double value);

/* As put_number, for integer sources and targets: the low bits stay. */
void put_wrapped(void *array, ls_dtype dtype, size_t i, int64_t value);

#endif
