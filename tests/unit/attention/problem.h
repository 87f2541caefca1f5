/*
 * An attention problem with random inputs, what the library makes of it, and
 * the same in float64 loops.
 */
#ifndef TESTS_ATTENTION_PROBLEM_H
#define TESTS_ATTENTION_PROBLEM_H

#include "lockstep/attention.h"

/* The arrays of a problem: what goes in, what comes out. */
#define PROBLEM_ARRAYS(X) X(Q) X(K) X(V) X(DOUT) X(O) X(DQ) X(DK) X(DV)

typedef enum problem_array {
#define X(name) ARRAY_##name,
    PROBLEM_ARRAYS(X)
#undef X
        ARRAY_COUNT
} problem_array;

typedef struct problem {
    ls_attention_shape shape;
    size_t counts[ARRAY_COUNT]; /* elements, dense or as strides spread them */
    void *data[ARRAY_COUNT];    /* of the shape's type, exact allocations */
    double *exact[ARRAY_COUNT]; /* the same, float64; O and later: reference */
    float *saved;
    double *l; /* reference */
} problem;

/* N(0,1)-like inputs times `size`; rounded to the type, then exact. */
void problem_new(problem *p, ls_attention_shape shape, double size,
                 uint64_t seed);
void problem_free(problem *p);

/* Forward and backward by the library; fails the test on an error. */
void problem_run(problem *p, ls_attention_method method);

/* Forward and backward in float64, from the formulas. */
void problem_solve(problem *p);

/* Element i of an array of the library's, as a double. */
double problem_value(const problem *p, problem_array array, size_t i);

/*
 * O, L, dQ, dK and dV are finite and within `bound` of the reference, relative
 * to its largest element.
 */
void problem_check(const problem *p, double bound);

/* The place of an element, from the shape's strides. */
size_t problem_at(const problem *p, problem_array array, int64_t batch,
                  int64_t head, int64_t row, int64_t c);

#endif
