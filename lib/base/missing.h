/*
 * Lists missing ranks for error messages. The file needs no other file of the
 * library, as modules compile it, too.
 */
#ifndef LS_BASE_MISSING_H
#define LS_BASE_MISSING_H

#include <stddef.h>

/*
 * "rank 2, rank 5 and 3 more", of the ranks 0..n-1 for which here[r] is 0, cut
 * to fit (64 bytes at least). Returns how many there are.
 */
int lsi_missing_ranks(const char *here, int n, char *text, size_t bytes);

#endif
