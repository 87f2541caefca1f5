/*
 * Code that the tests of products, convolutions and pooling share. They go
 * through the public functions of compute/dense.h, at the level of
 * LOCKSTEP_ISA.
 */
#ifndef TESTS_KERNELS_DENSE_H
#define TESTS_KERNELS_DENSE_H

#include <stdio.h>

#include "array/compute/dense.h"
#include "harness.h"
#include "testing.h"

/* The exit status of a test program on a machine without the wanted level. */
enum { TEST_SKIPPED = 77 };

static inline bool level_is_missing(void)
{
    lsi_isa isa;
    if (lsi_isa_from_env(&isa) != LS_ERR_UNSUPPORTED)
        return false;
    printf("%s\n", ls_last_error());
    return true;
}

#endif
