/* lsi_winograd_ops, and those of its parts that gradients of filters need. */
#ifndef LS_ARRAY_KERNELS_AVX512_BF16_WINOGRAD_PARTS_H
#define LS_ARRAY_KERNELS_AVX512_BF16_WINOGRAD_PARTS_H

#include "array/kernels/winograd.h"

extern const lsi_winograd_ops lsi_winograd_avx512_bf16;

size_t lsi_winograd_v_elements(const lsi_winograd_conv *conv);
size_t lsi_winograd_z_elements(const lsi_winograd_conv *conv);
void lsi_winograd_points(const lsi_winograd_gradient *run, size_t first,
                         size_t begin, size_t end);
void lsi_winograd_add_up(const lsi_winograd_gradient *run, size_t first,
                         size_t point, size_t o_block);
void lsi_winograd_gradient_of(float *dw, const lsi_winograd_gradient *run,
                              size_t o_block, size_t c_block, bool accumulate);

#endif
