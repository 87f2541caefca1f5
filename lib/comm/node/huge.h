/* Huge pages for memory that processes share by a file without a name. */
#ifndef LS_COMM_NODE_HUGE_H
#define LS_COMM_NODE_HUGE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Maps a range of the file to read and write. A range of at least a huge page
 * gets the same offset within a huge page in memory as in the file; otherwise
 * the kernel cannot map huge pages. MAP_FAILED: errno has the reason.
 */
void *lsi_map_shared(int fd, uint64_t offset, size_t bytes);

/*
 * Allocates the huge pages that are in the range as a whole. The first rank to
 * touch the remaining bytes allocates them. Does nothing if no huge pages are
 * available, or if the administrator has disabled them.
 */
void lsi_use_huge_pages(void *address, size_t bytes);

#endif
