/*
 * Copying into memory that another rank reads next.
 *
 * On some processors an ordinary store to a line that another core's cache
 * holds waits for that core, line by line (Zen 4: 80 ns each, 3.5 us for 10
 * KB), and a store that bypasses the cache does not (0.2 us). On others it is
 * the other way round: such stores cost twice as much as ordinary ones, or far
 * more (Zen 5: all of a collective of 1 KB takes 0.18 us with ordinary stores
 * and 0.8 with these, because its readers find the data in memory only).
 */
#ifndef LS_COMM_NODE_COPY_H
#define LS_COMM_NODE_COPY_H

#include <stddef.h>

/* As memcpy; complete before any later store of this thread. */
void lsi_copy_out(void *to, const void *from, size_t bytes);

/*
 * The same with stores that bypass the caches, on every processor: for results
 * that are larger than those, which would otherwise be read before they are
 * overwritten.
 */
void lsi_copy_past_caches(void *to, const void *from, size_t bytes);

#endif
