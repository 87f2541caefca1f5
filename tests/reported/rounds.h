/*
 * How often a test of a reported bug repeats what failed: 1,000 times, or as
 * often as the program's argument says. `test_reported jax_40830 100000`.
 */
#ifndef LS_TEST_REPORTED_ROUNDS_H
#define LS_TEST_REPORTED_ROUNDS_H

#include <stdlib.h>

#define DEFAULT_ROUNDS 1000

static inline size_t rounds_of(int argc, char **argv)
{
    return argc > 1 ? strtoull(argv[1], NULL, 10) : DEFAULT_ROUNDS;
}

#endif
