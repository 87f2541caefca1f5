/* Rotary positions: pairs of elements that are turned. */
#ifndef LS_ARRAY_KERNELS_SIMD_ROTATIONS_H
#define LS_ARRAY_KERNELS_SIMD_ROTATIONS_H

#include "array/kernels/simd/words.h"

/*
 * Plain loops, which compilers turn into the shuffles of each level. A function
 * for each layout: its steps must be known when it is compiled.
 */
INLINE void rotate(float *restrict y_a, float *restrict y_b,
                   const float *restrict x, const float *restrict cosine,
                   const float *restrict sine, size_t pairs, size_t step)
{
    for (size_t k = 0; k < pairs; k++) {
        const float a = x[2 * k];
        const float b = x[2 * k + 1];
        y_a[k * step] = cosine[k] * a - sine[k] * b;
        y_b[k * step] = sine[k] * a + cosine[k] * b;
    }
}

void LSI_SIMD(rope)(float *y, const float *x, const float *cosine,
                    const float *sine, size_t heads, size_t d, bool halves)
{
    for (size_t h = 0; h < heads; h++, x += d, y += d) {
        if (halves)
            rotate(y, y + d / 2, x, cosine, sine, d / 2, 1);
        else
            rotate(y, y + 1, x, cosine, sine, d / 2, 2);
    }
}

INLINE void rotate_back(float *restrict dx, const float *restrict dy_a,
                        const float *restrict dy_b,
                        const float *restrict cosine,
                        const float *restrict sine, size_t pairs, size_t step)
{
    for (size_t k = 0; k < pairs; k++) {
        const float a = dy_a[k * step];
        const float b = dy_b[k * step];
        dx[2 * k] = cosine[k] * a + sine[k] * b;
        dx[2 * k + 1] = cosine[k] * b - sine[k] * a;
    }
}

void LSI_SIMD(rope_backward)(float *dx, const float *dy, const float *cosine,
                             const float *sine, size_t heads, size_t d,
                             bool halves)
{
    for (size_t h = 0; h < heads; h++, dx += d, dy += d) {
        if (halves)
            rotate_back(dx, dy, dy + d / 2, cosine, sine, d / 2, 1);
        else
            rotate_back(dx, dy, dy + 1, cosine, sine, d / 2, 2);
    }
}

void LSI_SIMD(rotate_half)(float *y, const float *x, const float *cosine,
                           const float *sine, size_t heads, size_t d, bool back)
{
    const size_t half = d / 2;
    const vf sign = vf_set(back ? -1.0F : 1.0F);
    for (size_t h = 0; h < heads; h++, x += d, y += d)
        FOR_LANES(half, {
            const vf a = vf_load(x + i, m);
            const vf b = vf_load(x + half + i, m);
            const vf c = vf_load(cosine + i, m);
            const vf s = vf_mul(vf_load(sine + i, m), sign);
            vf_store(y + i, vf_sub(vf_mul(c, a), vf_mul(s, b)), m);
            vf_store(y + half + i, vf_add(vf_mul(s, a), vf_mul(c, b)), m);
        });
}

#endif
