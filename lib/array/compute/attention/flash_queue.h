/*
 * The pairs of blocks that several workers still have to do, of one head or of
 * some. A worker takes a pair whose turn it is in its row and in its column,
 * and marks it when it is done. Pairs have no owner, but each column belongs to
 * a worker. Other workers take a pair of it only if they would wait otherwise.
 */
#ifndef LS_ARRAY_COMPUTE_ATTENTION_FLASH_QUEUE_H
#define LS_ARRAY_COMPUTE_ATTENTION_FLASH_QUEUE_H

#include <stdatomic.h>

#include "array/compute/attention/flash_order.h"

typedef struct lsi_flash_queue {
    lsi_flash_order *orders; /* [heads] */
    size_t heads, rows, columns;
    int workers;
    atomic_size_t *row_done;    /* [heads][rows]: pairs */
    atomic_size_t *column_next; /* [heads][columns]: 2 place + taken */
} lsi_flash_queue;

typedef struct lsi_flash_turn {
    size_t head, row, column;
    size_t place;    /* in the column */
    size_t priority; /* the pair with the least is next */
} lsi_flash_turn;

/* Bytes of a queue of this number of blocks, aligned for any object. */
size_t lsi_flash_queue_bytes(size_t heads, size_t rows, size_t columns);

/* A queue in `memory`; its orders are all `order` until they are set. */
lsi_flash_queue lsi_flash_queue_make(void *memory, size_t heads, int workers,
                                     const lsi_flash_order *order);

/* When all orders are set: nothing is done. */
void lsi_flash_queue_start(lsi_flash_queue *b);

/*
 * The next pair for `worker`, whose last one was *turn (all zero at first).
 * Waits until it is the turn of a pair; false if all are taken.
 */
bool lsi_flash_queue_claim(lsi_flash_queue *b, int worker,
                           lsi_flash_turn *turn);
void lsi_flash_queue_done(lsi_flash_queue *b, const lsi_flash_turn *turn);

#endif
