/*
 * FNV-1a (Fowler, Noll, Vo): quick, and good enough where nobody means harm.
 */
#ifndef LS_BASE_HASH_H
#define LS_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define LSI_HASH_START UINT64_C(0xcbf29ce484222325)

/* The hash of what `hash` was of, followed by these bytes. */
static inline uint64_t lsi_hash(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
