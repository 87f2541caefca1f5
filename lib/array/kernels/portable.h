/*
 * Constants that define the bits of f32 results where they are portable
 * (base/bits.h). Another value gives other bits on every processor.
 */
#ifndef LS_ARRAY_KERNELS_PORTABLE_H
#define LS_ARRAY_KERNELS_PORTABLE_H

/*
 * Terms of a block of a product. The sum of a block is a chain of fused
 * multiply-adds, from 0, over ascending terms. The sums of the blocks are added
 * in ascending order.
 */
enum { LSI_PORTABLE_BLOCK = 256 };

#endif
