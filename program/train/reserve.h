/*
 * Room on a disk for a file that is written later. A file without a name has
 * it, so that nothing is left of it whatever becomes of the process. Local.
 */
#ifndef LS_TRAIN_RESERVE_H
#define LS_TRAIN_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

/* All zero: none. */
typedef struct lsi_reserve {
    bool held;
    int fd;
} lsi_reserve;

/* Where the system cannot do that, or there is too little room: none. */
void lsi_reserve_take(lsi_reserve *reserve, const char *folder, uint64_t bytes);

/* The room is free then. */
void lsi_reserve_drop(lsi_reserve *reserve);

#endif
