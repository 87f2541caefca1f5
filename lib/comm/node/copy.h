/*
 * Copying into memory that another rank reads next.
 *
 * An ordinary store may hit a line that another core's cache holds. If the
 * cores share no cache, the store may wait for the other core, line by line,
 * and a store that bypasses the caches does not. But then readers find the
 * data in memory only. On a Zen 3, an all-reduce of 1 MB between cores that
 * share no cache takes 255 us with ordinary stores and 130 us past the caches.
 * Between cores that share one it takes 82 and 155 us.
 *
 * So the first group of a job on a node measures both (comm/coll/copy_probe.h),
 * and the node has the answer.
 */
#ifndef LS_COMM_NODE_COPY_H
#define LS_COMM_NODE_COPY_H

#include <stddef.h>

#include "comm/node/transport.h"

/* As memcpy; complete before any later store of this thread. */
void lsi_copy_out(const lsi_node_memory *node, void *to, const void *from,
                  size_t bytes);

/*
 * As lsi_copy_out, for a cell. The other ranks read its data at once, so short
 * data stay in this CPU's cache on every processor. Where stores wait, all
 * lines are fetched for writing first, so the waits overlap.
 */
void lsi_copy_to_cell(const lsi_node_memory *node, void *to, const void *from,
                      size_t bytes);

/*
 * As lsi_copy_out, with stores that bypass the caches on every processor. For
 * results larger than the caches, which would otherwise be read before they are
 * overwritten.
 */
void lsi_copy_past_caches(void *to, const void *from, size_t bytes);

#endif
