/* Huge pages for memory that processes share by a file without a name. */
#ifndef LS_COMM_NODE_HUGE_H
#define LS_COMM_NODE_HUGE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Maps it to read and write. What is as large as a huge page begins at as much
 * of one as it does in the file: else the kernel cannot map any. MAP_FAILED:
 * errno says why.
 */
void *lsi_map_shared(int fd, uint64_t offset, size_t bytes);

/*
 * Takes the huge pages that lie in the range as a whole, of which the rest is
 * taken by whoever touches it. Nothing follows if there are none to be had, or
 * whoever keeps the machine does not want them.
 */
void lsi_take_huge_pages(void *address, size_t bytes);

#endif
