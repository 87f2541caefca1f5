/*
 * The peers of a rank when distances double: a binomial tree, and
 * dissemination. Pure. Rounds count from 0 to lsi_doubling_rounds(size) - 1; in
 * round k the distance is 2^k.
 *
 * Tree: ranks are counted from the root. Ranks below the distance have the data
 * and each sends it on, so that the number of ranks with the data doubles.
 *
 * Dissemination: each rank sends to the rank at the distance to its right. So
 * after the last round each has, directly or not, the data of all.
 */
#ifndef LS_COMM_SCHEDULE_TREE_H
#define LS_COMM_SCHEDULE_TREE_H

static inline int lsi_doubling_rounds(int size)
{
    int rounds = 0;
    while (1 << rounds < size)
        rounds++;
    return rounds;
}

/* The rank to which `rank` sends in a round, or -1. */
static inline int lsi_tree_sends_to(int rank, int size, int root, int round)
{
    const int place = (rank - root + size) % size, distance = 1 << round;
    return place < distance && place + distance < size
               ? (rank + distance) % size
               : -1;
}

/* The rank from which `rank` receives in a round, or -1. */
static inline int lsi_tree_receives_from(int rank, int size, int root,
                                         int round)
{
    const int place = (rank - root + size) % size, distance = 1 << round;
    return place >= distance && place < 2 * distance
               ? (rank - distance + size) % size
               : -1;
}

static inline int lsi_dissemination_sends_to(int rank, int size, int round)
{
    return (rank + (1 << round)) % size;
}

static inline int lsi_dissemination_receives_from(int rank, int size, int round)
{
    return (rank - (1 << round) + size) % size;
}

/*
 * If each rank passes on all it has: of how many ranks it has data in a round
 * that are new to the receiver, itself included. They are it and those to its
 * left.
 */
static inline int lsi_dissemination_blocks(int size, int round)
{
    const int held = 1 << round;
    return size - held < held ? size - held : held;
}

#endif
