/*
 * A store in memory that the processes of a test share: those that it forks
 * after it has been made, and their threads.
 */
#ifndef LS_TEST_COMM_SHARED_STORE_H
#define LS_TEST_COMM_SHARED_STORE_H

#include "lockstep/group.h"

/* An empty one, instead of the one before. It aborts if a key is set twice. */
const ls_store *new_shared_store(void);

/* How many keys have been set. */
int count_shared_store(void);

/* A key may be set again from now on. */
void let_shared_store_overwrite(void);

/* Makes the next calls return these statuses; LS_OK: they work. */
void break_shared_store(ls_status set, ls_status get);

#endif
