/*
 * Which rows of algorithms.def have run, on any rank of any group of the test,
 * as the recorder of each group has seen it. Processes that are forked later
 * share the account.
 */
#ifndef LS_TEST_CONFORMANCE_COVERAGE_H
#define LS_TEST_CONFORMANCE_COVERAGE_H

#include <stdint.h>

#include "comm/coll/algorithm.h"
#include "lockstep/group.h"

/* Begins the account. Before any rank starts. */
void coverage_open(void);

/* Up to which collective a group's have been taken down. */
typedef struct coverage_mark {
    uint64_t group, node;
} coverage_mark;

/* Takes down what the group has run since, and those inside its node. */
void coverage_take(const ls_group *group, coverage_mark *mark);

/* Of the last collective that the group has completed. */
const lsi_algorithm *coverage_last(const ls_group *group);

/* Says that ranks could copy from each other's memory, so that they must have.
 */
void coverage_can_copy(void);

/* How many rows that ought to have run have not; names each on stderr. */
int coverage_missing(void);

#endif
