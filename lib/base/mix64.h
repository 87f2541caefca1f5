/*
 * The finalizer of SplitMix64 (Stafford's variant 13): a bijection of 64-bit
 * numbers in which each bit of the result depends on all bits of x.
 */
#ifndef LS_BASE_MIX64_H
#define LS_BASE_MIX64_H

#include <stdint.h>

#define LSI_MIX64_A UINT64_C(0xbf58476d1ce4e5b9)
#define LSI_MIX64_B UINT64_C(0x94d049bb133111eb)

static inline uint64_t lsi_mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * LSI_MIX64_A;
    x = (x ^ (x >> 27)) * LSI_MIX64_B;
    return x ^ (x >> 31);
}

#endif
