/*
 * One harness for all kernels. For each row of kernels.def there is a function
 * check_NAME, which is run with the table of each level that the machine has;
 * a row without one does not link.
 *
 * A check computes what it expects itself, in double or exactly, and bounds
 * the error by n and eps; where a kernel promises the same bits at all levels
 * it also compares with the reference.
 */
#ifndef TESTS_KERNELS_HARNESS_H
#define TESTS_KERNELS_HARNESS_H

#include "array/kernels/kernels.h"

#define X(name, args) void check_##name(const lsi_kernels *k);
#include "array/kernels/kernels.def"
#include "fold/fold.def"
#undef X

/* Half the distance from 1 to the next f32: the error of one rounding. */
#define HALF_ULP 0x1p-24

/* Lengths around those of vectors and of blocks of vectors. */
extern const size_t test_lengths[];
extern const size_t test_length_count;

/* The table of the reference. */
const lsi_kernels *reference(void);

/*
 * For the loops of a reference. Under a sanitizer they take most of the time,
 * and read no more than the test's own arrays.
 */
#define UNSANITIZED __attribute__((no_sanitize("address", "undefined")))

/* Starts the random numbers of a check again. */
void random_seed(uint64_t seed);
uint64_t random_u64(void);
double random_between(double low, double high);

/*
 * Memory with guard bytes on both sides, filled with a pattern, `shift` bytes
 * past a multiple of 64. release_all checks the guards of everything there is
 * and frees it.
 */
void *guarded(size_t bytes, size_t shift);
void release_all(void);

float *floats(size_t n); /* a bit unaligned */
float *random_floats(size_t n, double low, double high);
/* Zeros of both signs, subnormals, infinities, NaN, huge, ties, among others */
float *extreme_floats(size_t n);
float *copy_floats(const float *x, size_t n);

bool same_bits(const float *a, const float *b, size_t n);
/* Equal bits, or both NaN. */
void expect_same(const float *got, const float *want, size_t n,
                 const char *what);
/* |got - want| <= bound; infinities equal; NaN where NaN is wanted. */
void expect_near(double got, double want, double bound, const char *what,
                 size_t i);

#endif
