/*
 * The memory, addresses and descriptors that a rank holds.
 */
#ifndef LS_TEST_COMM_HOLDING_H
#define LS_TEST_COMM_HOLDING_H

#include <stdint.h>

#include "lockstep/group.h"

typedef struct holding {
    long long shared;      /* 512-byte blocks of the job's memory */
    uint64_t end;          /* of what has been taken of it */
    long pages;            /* of address space */
    int descriptors, rows; /* open ones; of vacant ranges */
} holding;

holding look(const ls_group *group);

/* No more than before, on any rank; `what` for the message. Collective. */
void check_same(ls_group *group, const holding *before, const char *what);

#endif
