/*
 * Cases of the conformance matrix: input, what must come out, and running one.
 *
 * Two kinds of input: small whole numbers, whose sums and products are exact in
 * every type, so that nothing but the exact result will do; and fractions,
 * whose result may differ from float64 by one rounding for each operation.
 */
#ifndef LS_TEST_CONFORMANCE_CASES_H
#define LS_TEST_CONFORMANCE_CASES_H

#include <stdbool.h>
#include <stddef.h>

#include "comm/coll/algorithm.h"
#include "lockstep/group.h"

enum {
    CASE_MOST_RANKS = 16,
    CASE_GUARD = 16 /* bytes behind a buffer that must not change */
};

typedef struct test_case {
    const lsi_algorithm *algorithm;
    ls_dtype dtype;
    ls_reduce_op redop;
    size_t count;
    bool in_place, fractions;
    unsigned char *shared[2]; /* where the buffers lie, or NULL */
} test_case;

/*
 * Runs the case, and checks what every rank has afterwards, and that it was the
 * algorithm which ran if nothing is beyond its limits.
 */
void run_case(ls_group *group, const test_case *test);

#endif
