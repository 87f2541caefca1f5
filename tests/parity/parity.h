/*
 * Comparing our results with PyTorch's in double precision, which vectors.py
 * writes.
 *
 * Bounds. A sum of n products, rounded to f32 at each step, is
 * off by about sqrt(n) 2^-24 of its terms' magnitudes, as roundings
 * are nearly independent. The magnitudes are at most a few times the
 * largest element of the tensor. Where a result comes out of several sums in a
 * row their lengths add up. Each check names that length; 8 sqrt(n) 2^-24 of
 * the largest element is allowed, and sqrt(count) times that for a sum of
 * elements with random signs.
 */
#ifndef TESTS_PARITY_PARITY_H
#define TESTS_PARITY_PARITY_H

#include "lockstep/autograd.h"
#include "testing.h"

/* ---- values that both sides draw ----------------------------------------- */

void fill(ls_tensor *tensor, uint64_t seed, float scale);
ls_tensor *values(uint64_t seed, int ndim, const int64_t *shape, float scale);
ls_tensor *labels(uint64_t seed, int64_t n, int64_t classes);

/* ---- the file, PARITY_VECTORS --------------------------------------------
 */

/* Runs the tests of an array; the vectors are those of the file. */
#define run_with_vectors(tests)                                                \
    (choose_vectors(PARITY_VECTORS),                                           \
     cmocka_run_group_tests(tests, open_vectors, close_vectors))

void choose_vectors(const char *name);

/* Set-up and tear-down of a group of tests. */
int open_vectors(void **state);
int close_vectors(void **state);

/* The number on the line of that name. */
uint64_t read_seed(const char *name);

/* The line is about this tensor, whose elements are sums of `length`. */
void check(const char *name, const ls_tensor *tensor, double length);

/* As check, for a tensor whose elements cancel to less than `magnitude`. */
void check_cancelling(const char *name, const ls_tensor *tensor, double length,
                      double magnitude);

/* The last test: nothing in the file was left out. */
void every_line_was_read(void **state);

/* ---- one operation ------------------------------------------------------- */

enum { MAX_INPUTS = 4 };

typedef struct operation {
    const char *name;
    ls_tape *tape;
    ls_tensor *in[MAX_INPUTS];
    int n;
} operation;

operation begin(const char *name);
void add_input(operation *op, int ndim, const int64_t *shape, float scale);

/* Values, then gradients of their weighted sum. lengths: y, then the inputs. */
void finish(operation *op, ls_tensor *y, const double *lengths);
void end(operation *op);

#endif
