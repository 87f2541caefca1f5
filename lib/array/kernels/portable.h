/*
 * Portable bits (base/bits.h): the order of each sum in f32, whatever the
 * instruction level, the compiler and the number of threads. Other constants
 * would give other bits on every processor.
 *
 * Vectors have 16 lanes at every level; lane l of a sum over a row has the
 * elements l, l + 16, ... in their order. The sums of lanes are added as
 * halves: l + 8 to l, then l + 4, l + 2 and l + 1.
 */
#ifndef LS_ARRAY_KERNELS_PORTABLE_H
#define LS_ARRAY_KERNELS_PORTABLE_H

enum {
    LSI_PORTABLE_LANES = 16,
    /*
     * Terms of a block of a product. The sum of a block is a chain of fused
     * multiply-adds, from 0, over ascending terms. The sums of the blocks are
     * added in ascending order.
     */
    LSI_PORTABLE_BLOCK = 256,
    /* Queries that attention computes together. */
    LSI_PORTABLE_PANEL = 32,
    /* Rows of a product that see the same keys at the causal mask's edge. */
    LSI_PORTABLE_GROUP = 8
};

#endif
