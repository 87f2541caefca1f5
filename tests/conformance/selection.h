/*
 * Selecting one algorithm, and making sure that it is the one which ran.
 */
#ifndef LS_TEST_CONFORMANCE_SELECTION_H
#define LS_TEST_CONFORMANCE_SELECTION_H

#include <stdbool.h>
#include <stddef.h>

#include "comm/coll/algorithm.h"
#include "lockstep/group.h"

/* Selects it, and one that always works for what is beyond its limits. */
void select_algorithm(ls_group *group, const lsi_algorithm *algorithm);

/* The quantities that limits of algorithms depend on. */
typedef struct conditions {
    size_t block; /* bytes of count elements */
    bool shared;  /* both buffers are from ls_shared_alloc */
    bool in_place;
} conditions;

/*
 * Fails unless the last collective of the group was by this algorithm or
 * something was beyond its limits.
 */
void check_selected(const ls_group *group, const lsi_algorithm *algorithm,
                    conditions c);

#endif
