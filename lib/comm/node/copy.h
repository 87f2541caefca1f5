/*
 * Copying into memory that another rank reads next.
 *
 * An ordinary store may hit a line that another core's cache holds. On some
 * processors the store then waits for that core, line by line (Zen 4: 80 ns
 * each, 3.5 us for 10 KB), and a store that bypasses the cache does not (0.2
 * us).
 *
 * On others such stores cost twice as much as ordinary ones, or far more. On
 * Zen 5 a collective of 1 KB takes 0.18 us with ordinary stores and 0.8 us with
 * these, because its readers find the data in memory only.
 */
#ifndef LS_COMM_NODE_COPY_H
#define LS_COMM_NODE_COPY_H

#include <stddef.h>

/* As memcpy; complete before any later store of this thread. */
void lsi_copy_out(void *to, const void *from, size_t bytes);

/*
 * As lsi_copy_out, for a cell. The other ranks read its data at once, so short
 * data stay in this CPU's cache on every processor. Where stores wait, all
 * lines are fetched for writing first, so the waits overlap.
 */
void lsi_copy_to_cell(void *to, const void *from, size_t bytes);

/*
 * As lsi_copy_out, with stores that bypass the caches on every processor. For
 * results larger than the caches, which would otherwise be read before they are
 * overwritten.
 */
void lsi_copy_past_caches(void *to, const void *from, size_t bytes);

#endif
