/*
 * Room on a disk for a file that is written later. A file without a name
 * reserves it, so that nothing of it is left, however the process ends. Local.
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

/* None where the system cannot reserve room, or has too little. */
void lsi_reserve_space(lsi_reserve *reserve, const char *folder,
                       uint64_t bytes);

/* Frees the room. */
void lsi_reserve_drop(lsi_reserve *reserve);

#endif
