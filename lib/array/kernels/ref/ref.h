/*
 * The reference: every row of kernels.def as a plain loop. It defines the
 * results of the other levels. They may also call it for cases that are not
 * worth vectors.
 */
#ifndef LS_ARRAY_KERNELS_REF_REF_H
#define LS_ARRAY_KERNELS_REF_REF_H

#include "array/kernels/kernels.h"

#define X(name, args) void lsi_ref_##name args;
#include "array/kernels/kernels.def"
#undef X

/* As reorder, for elements of two bytes. */
void lsi_ref_reorder_half(uint16_t *dst, int64_t dst_block, const uint16_t *src,
                          int64_t src_block, int64_t c, int64_t pixels);

#endif
