/*
 * Pooling over windows that may overlap: vectors of channels of one pixel.
 * Plain images have none and are left to the reference.
 */
#ifndef LS_ARRAY_KERNELS_SIMD_WINDOWS_H
#define LS_ARRAY_KERNELS_SIMD_WINDOWS_H

#include "array/kernels/simd/words.h"

/*
 * Runs the body for each output of each slab and each vector of its channels:
 * `t` are its taps, `at` its first element in the output, `in` those of tap (0,
 * 0) in the input, which may be before its beginning.
 */
#define FOR_OUTPUTS(s, block, ...)                                             \
    do {                                                                       \
        const int64_t n_out = (s)->oh * (s)->ow;                               \
        for (int64_t o = 0; o < n_out; o++) {                                  \
            const lsi_window_taps t = lsi_window_taps_of(s, o);                \
            FOR_LANES(block, {                                                 \
                const int64_t at = o * (int64_t)(block) + (int64_t)i;          \
                const int64_t in =                                             \
                    (t.y * (s)->w + t.x) * (int64_t)(block) + (int64_t)i;      \
                __VA_ARGS__                                                    \
            });                                                                \
        }                                                                      \
    } while (0)

#define FOR_WINDOW_TAPS(t, ky, kx)                                             \
    for (int64_t ky = (t).y_begin; ky < (t).y_end; ky++)                       \
        for (int64_t kx = (t).x_begin; kx < (t).x_end; kx++)

void LSI_SIMD(avg_window2d)(float *dst, const float *src, const lsi_window2d *s,
                            size_t begin, size_t end)
{
    const int64_t block = lsi_layout_block(s->layout, s->c);
    const int64_t outputs = s->oh * s->ow * block, inputs = s->h * s->w * block;
    const vf factor = vf_set(1.0F / (float)(s->size * s->size));
    if (block == 1) {
        lsi_ref_avg_window2d(dst, src, s, begin, end);
        return;
    }
    for (int64_t slab = (int64_t)begin; slab < (int64_t)end; slab++) {
        float *to = dst + slab * outputs;
        const float *from = src + slab * inputs;
        FOR_OUTPUTS(s, (size_t)block, {
            vf sum = vf_set(0.0F);
            FOR_WINDOW_TAPS(t, ky, kx)
            sum = vf_add(sum, vf_load(from + in + (ky * s->w + kx) * block, m));
            vf_store(to + at, vf_mul(sum, factor), m);
        });
    }
}

void LSI_SIMD(avg_window2d_backward)(float *dsrc, const float *ddst,
                                     const lsi_window2d *s, size_t begin,
                                     size_t end)
{
    const int64_t block = lsi_layout_block(s->layout, s->c);
    const int64_t outputs = s->oh * s->ow * block, inputs = s->h * s->w * block;
    const vf factor = vf_set(1.0F / (float)(s->size * s->size));
    if (block == 1) {
        lsi_ref_avg_window2d_backward(dsrc, ddst, s, begin, end);
        return;
    }
    for (int64_t slab = (int64_t)begin; slab < (int64_t)end; slab++) {
        float *to = dsrc + slab * inputs;
        const float *from = ddst + slab * outputs;
        memset(to, 0, (size_t)inputs * sizeof(float));
        FOR_OUTPUTS(s, (size_t)block, {
            const vf g = vf_mul(vf_load(from + at, m), factor);
            FOR_WINDOW_TAPS(t, ky, kx)
            {
                float *p = to + in + (ky * s->w + kx) * block;
                vf_store(p, vf_add(vf_load(p, m), g), m);
            }
        });
    }
}

void LSI_SIMD(max_window2d)(float *dst, uint8_t *index, const float *src,
                            const lsi_window2d *s, size_t begin, size_t end)
{
    const int64_t block = lsi_layout_block(s->layout, s->c);
    const int64_t outputs = s->oh * s->ow * block, inputs = s->h * s->w * block;
    if (block == 1) {
        lsi_ref_max_window2d(dst, index, src, s, begin, end);
        return;
    }
    for (int64_t slab = (int64_t)begin; slab < (int64_t)end; slab++) {
        float *to = dst + slab * outputs;
        uint8_t *where = index + slab * outputs;
        const float *from = src + slab * inputs;
        FOR_OUTPUTS(s, (size_t)block, {
            const int64_t first = t.y_begin * s->w + t.x_begin;
            vf max = vf_load(from + in + first * block, m);
            vi tap = vi_set((uint32_t)(t.y_begin * s->size + t.x_begin));
            FOR_WINDOW_TAPS(t, ky, kx)
            {
                const vf v = vf_load(from + in + (ky * s->w + kx) * block, m);
                const vm nan = vm_and_not(vf_is_nan(v), vf_is_nan(max));
                const vm larger = vm_or(vf_gt(v, max), nan);
                max = vf_select(larger, v, max);
                tap = vi_select(larger, vi_set((uint32_t)(ky * s->size + kx)),
                                tap);
            }
            vf_store(to + at, max, m);
            vi_store_u8(where + at, tap, m);
        });
    }
}

void LSI_SIMD(max_window2d_backward)(float *dsrc, const float *ddst,
                                     const uint8_t *index,
                                     const lsi_window2d *s, size_t begin,
                                     size_t end)
{
    const int64_t block = lsi_layout_block(s->layout, s->c);
    const int64_t outputs = s->oh * s->ow * block, inputs = s->h * s->w * block;
    if (block == 1) {
        lsi_ref_max_window2d_backward(dsrc, ddst, index, s, begin, end);
        return;
    }
    for (int64_t slab = (int64_t)begin; slab < (int64_t)end; slab++) {
        float *to = dsrc + slab * inputs;
        const float *from = ddst + slab * outputs;
        const uint8_t *where = index + slab * outputs;
        memset(to, 0, (size_t)inputs * sizeof(float));
        FOR_OUTPUTS(s, (size_t)block, {
            const vf g = vf_load(from + at, m);
            const vi tap = vi_load_u8(where + at, m);
            FOR_WINDOW_TAPS(t, ky, kx)
            {
                float *p = to + in + (ky * s->w + kx) * block;
                const vm here =
                    vi_eq(tap, vi_set((uint32_t)(ky * s->size + kx)));
                vf_store(p, vf_add(vf_load(p, m), vf_keep(here, g)), m);
            }
        });
    }
}

#endif
