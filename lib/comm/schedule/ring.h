/*
 * The blocks that the ranks send in a ring. Pure. Steps count from 1 to size -
 * 1.
 *
 * Reduce-scatter: in step t rank i sends block i-t to its right neighbour. It
 * adds the data from the left to block i-t-1, so after the last step it has all
 * of block i. All-gather: blocks travel on from there.
 */
#ifndef LS_COMM_SCHEDULE_RING_H
#define LS_COMM_SCHEDULE_RING_H

static inline int lsi_ring_right(int rank, int size)
{
    return (rank + 1) % size;
}

static inline int lsi_ring_left(int rank, int size)
{
    return (rank + size - 1) % size;
}

/* step may be 0..size */
static inline int lsi_ring_reduce_sends(int rank, int size, int step)
{
    return (rank - step + size) % size;
}

static inline int lsi_ring_reduce_receives(int rank, int size, int step)
{
    return (rank - step - 1 + 2 * size) % size;
}

static inline int lsi_ring_gather_sends(int rank, int size, int step)
{
    return (rank - step + 1 + size) % size;
}

static inline int lsi_ring_gather_receives(int rank, int size, int step)
{
    return (rank - step + size) % size;
}

#endif
