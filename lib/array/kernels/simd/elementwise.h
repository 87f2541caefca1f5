/* Element-wise kernels. */
#ifndef LS_ARRAY_KERNELS_SIMD_ELEMENTWISE_H
#define LS_ARRAY_KERNELS_SIMD_ELEMENTWISE_H

#include "array/kernels/simd/words.h"

void LSI_SIMD(add)(float *y, const float *a, const float *b, size_t n)
{
    FOR_LANES(n, {
        vf_store(y + i, vf_add(vf_load(a + i, m), vf_load(b + i, m)), m);
    });
}

void LSI_SIMD(sub)(float *y, const float *a, const float *b, size_t n)
{
    FOR_LANES(n, {
        vf_store(y + i, vf_sub(vf_load(a + i, m), vf_load(b + i, m)), m);
    });
}

void LSI_SIMD(mul)(float *y, const float *a, const float *b, size_t n)
{
    FOR_LANES(n, {
        vf_store(y + i, vf_mul(vf_load(a + i, m), vf_load(b + i, m)), m);
    });
}

void LSI_SIMD(div)(float *y, const float *a, const float *b, size_t n)
{
    const vf one = vf_set(1.0F);
    FOR_LANES(n, {
        const vf x = vf_load(a + i, m);
        vf_store(y + i, vf_div(x, vf_load_or(b + i, m, one)), m);
    });
}

void LSI_SIMD(larger)(float *y, const float *a, const float *b, size_t n)
{
    FOR_LANES(n, {
        const vf x = vf_load(a + i, m);
        const vf most = vf_max(x, vf_load(b + i, m)); /* NaN if b is */
        vf_store(y + i, vf_select(vf_is_nan(x), x, most), m);
    });
}

void LSI_SIMD(fill)(float *y, float value, size_t n)
{
    const vf v = vf_set(value);
    FOR_LANES(n, { vf_store(y + i, v, m); });
}

void LSI_SIMD(add_number)(float *y, const float *a, float b, size_t n)
{
    const vf v = vf_set(b);
    FOR_LANES(n, { vf_store(y + i, vf_add(vf_load(a + i, m), v), m); });
}

void LSI_SIMD(number_minus)(float *y, const float *a, float b, size_t n)
{
    const vf v = vf_set(b);
    FOR_LANES(n, { vf_store(y + i, vf_sub(v, vf_load(a + i, m)), m); });
}

void LSI_SIMD(over_number)(float *y, const float *a, float b, size_t n)
{
    const vf v = vf_set(b);
    FOR_LANES(n, { vf_store(y + i, vf_div(vf_load(a + i, m), v), m); });
}

void LSI_SIMD(number_over)(float *y, const float *a, float b, size_t n)
{
    const vf v = vf_set(b);
    const vf one = vf_set(1.0F);
    FOR_LANES(n, { vf_store(y + i, vf_div(v, vf_load_or(a + i, m, one)), m); });
}

void LSI_SIMD(scale)(float *y, const float *a, float factor, size_t n)
{
    const vf f = vf_set(factor);
    FOR_LANES(n, { vf_store(y + i, vf_mul(vf_load(a + i, m), f), m); });
}

void LSI_SIMD(axpy)(float *y, const float *a, float factor, size_t n)
{
    const vf f = vf_set(factor);
    FOR_LANES(n, {
        vf_store(y + i, vf_fma(vf_load(a + i, m), f, vf_load(y + i, m)), m);
    });
}

void LSI_SIMD(relu)(float *y, const float *a, size_t n)
{
    const vf zero = vf_set(0.0F);
    FOR_LANES(n, { vf_store(y + i, vf_max(zero, vf_load(a + i, m)), m); });
}

void LSI_SIMD(relu_backward)(float *dx, const float *dy, const float *y,
                             size_t n, bool accumulate)
{
    const vf zero = vf_set(0.0F);
    FOR_LANES(n, {
        const vm alive = vf_gt(vf_load(y + i, m), zero);
        vf g = vf_keep(alive, vf_load(dy + i, m));
        if (accumulate)
            g = vf_add(vf_load(dx + i, m), g);
        vf_store(dx + i, g, m);
    });
}

void LSI_SIMD(normalize_u8)(float *y, const uint8_t *x, size_t pixels,
                            const float scale[3], const float shift[3])
{
    for (size_t c = 0; c < 3; c++) {
        const vf a = vf_set(scale[c]);
        const vf b = vf_set(shift[c]);
        const uint8_t *from = x + c * pixels;
        float *to = y + c * pixels;
        FOR_LANES(pixels, {
            vf_store(to + i, vf_fma(vf_load_u8(from + i, m), a, b), m);
        });
    }
}

#endif
