/*
 * Digests that tell whether two copies of memory are equal; not against an
 * attacker.
 *
 * The digest is a sum over 64-bit words, each mixed with its position by a
 * bijection. So a change within one word always changes the digest, whichever
 * bits it flips; other changes go unnoticed with probability 2^-64. Digests of
 * disjoint ranges add up, modulo 2^64, to that of their union, in any order.
 */
#ifndef LS_ARRAY_COMPUTE_DIGEST_H
#define LS_ARRAY_COMPUTE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/*
 * Bytes that begin at 64-bit word `first` of what is digested; a last word that
 * is not whole is filled up with zeros. The same for all instruction levels and
 * numbers of threads.
 */
uint64_t lsi_array_digest(const void *data, size_t bytes, uint64_t first);

#endif
