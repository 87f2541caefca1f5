/*
 * Reductions over several arrays. A chunk is accumulated in a local array that
 * stays in the first-level cache; its loops over plain elements are what
 * compilers vectorize well. The common case, sums of f32 and halves, is kept in
 * registers instead.
 */
#ifndef LS_KERNELS_SIMD_REDUCE_H
#define LS_KERNELS_SIMD_REDUCE_H

#include "kernels/simd/words.h"

enum { REDUCE_CHUNK = 512 };

#define REDUCE_ADD(acc, x) ((acc) + (x))
#define REDUCE_MUL(acc, x) ((acc) * (x))
#define REDUCE_MIN(acc, x) ((x) < (acc) || (x) != (x) ? (x) : (acc))
#define REDUCE_MAX(acc, x) ((x) > (acc) || (x) != (x) ? (x) : (acc))

/* acc[i] = acc[i] op x[i]; arithmetic in `wide`, where it cannot overflow. */
#define REDUCE_STEP(name, type, wide, OP)                                      \
    static void name(type *restrict acc, const type *restrict x, size_t n)     \
    {                                                                          \
        for (size_t i = 0; i < n; i++)                                         \
            acc[i] = (type)OP((wide)acc[i], (wide)x[i]);                       \
    }

/* The steps of a type, and the reduction made of them. */
#define REDUCE_TYPE(name, type, wide)                                          \
    REDUCE_STEP(step_sum_##name, type, wide, REDUCE_ADD)                       \
    REDUCE_STEP(step_min_##name, type, type, REDUCE_MIN)                       \
    REDUCE_STEP(step_max_##name, type, type, REDUCE_MAX)                       \
    REDUCE_STEP(step_prod_##name, type, wide, REDUCE_MUL)                      \
    typedef void step_fn_##name(type *restrict, const type *restrict, size_t); \
    static step_fn_##name *const steps_##name[LS_REDUCE_OP_COUNT] = {          \
        [LS_SUM] = step_sum_##name,                                            \
        [LS_MIN] = step_min_##name,                                            \
        [LS_MAX] = step_max_##name,                                            \
        [LS_PROD] = step_prod_##name};                                         \
    static void reduce_##name(type *dst, const void *const *srcs, int n_srcs,  \
                              size_t n, ls_reduce_op op)                       \
    {                                                                          \
        type acc[REDUCE_CHUNK];                                                \
        for (size_t at = 0; at < n; at += REDUCE_CHUNK) {                      \
            const size_t m = smaller(n - at, REDUCE_CHUNK);                    \
            memcpy(acc, (const type *)srcs[0] + at, m * sizeof(type));         \
            for (int s = 1; s < n_srcs; s++)                                   \
                steps_##name[op](acc, (const type *)srcs[s] + at, m);          \
            memcpy(dst + at, acc, m * sizeof(type));                           \
        }                                                                      \
    }

REDUCE_TYPE(f32, float, float)
REDUCE_TYPE(f64, double, double)
REDUCE_TYPE(i8, int8_t, uint8_t)
REDUCE_TYPE(u8, uint8_t, uint8_t)
REDUCE_TYPE(i32, int32_t, uint32_t)
REDUCE_TYPE(i64, int64_t, uint64_t)

/* Halves: chunks of them as f32. */
#define REDUCE_HALF(name)                                                      \
    INLINE void load_chunk_##name(float *out, const uint16_t *x, size_t n)     \
    {                                                                          \
        FOR_LANES(n, { vf_store(out + i, vf_load_##name(x + i, m), m); });     \
    }                                                                          \
    static void reduce_##name(uint16_t *dst, const void *const *srcs,          \
                              int n_srcs, size_t n, ls_reduce_op op)           \
    {                                                                          \
        float acc[REDUCE_CHUNK];                                               \
        float x[REDUCE_CHUNK];                                                 \
        for (size_t at = 0; at < n; at += REDUCE_CHUNK) {                      \
            const size_t chunk = smaller(n - at, REDUCE_CHUNK);                \
            load_chunk_##name(acc, (const uint16_t *)srcs[0] + at, chunk);     \
            for (int s = 1; s < n_srcs; s++) {                                 \
                load_chunk_##name(x, (const uint16_t *)srcs[s] + at, chunk);   \
                steps_f32[op](acc, x, chunk);                                  \
            }                                                                  \
            FOR_LANES(chunk, {                                                 \
                vf_store_##name(dst + at + i, vf_load(acc + i, m), m);         \
            });                                                                \
        }                                                                      \
    }

REDUCE_HALF(f16)
REDUCE_HALF(bf16)

/*
 * Sums of types that are added as f32: the vectors of SUM_UNROLL places are in
 * flight together, as one alone would wait for each addition.
 */
enum { SUM_UNROLL = 4 };

#define REDUCE_SUM(name, type, LOAD, STORE)                                    \
    INLINE void sum_places_##name(type *dst, const void *const *srcs,          \
                                  int n_srcs, size_t at, size_t places,        \
                                  size_t m, vf factor)                         \
    {                                                                          \
        vf total[SUM_UNROLL];                                                  \
        for (size_t u = 0; u < places; u++)                                    \
            total[u] = LOAD((const type *)srcs[0] + at + u * LANES, m);        \
        for (int s = 1; s < n_srcs; s++)                                       \
            for (size_t u = 0; u < places; u++)                                \
                total[u] =                                                     \
                    vf_add(total[u],                                           \
                           LOAD((const type *)srcs[s] + at + u * LANES, m));   \
        for (size_t u = 0; u < places; u++) /* times 1 changes nothing */      \
            STORE(dst + at + u * LANES, vf_mul(total[u], factor), m);          \
    }                                                                          \
    static void reduce_sum_##name(type *dst, const void *const *srcs,          \
                                  int n_srcs, size_t begin, size_t end,        \
                                  double factor)                               \
    {                                                                          \
        const size_t step = SUM_UNROLL * LANES;                                \
        const size_t rest = begin + (end - begin) / step * step;               \
        const vf f = vf_set((float)factor);                                    \
        for (size_t at = begin; at < rest; at += step)                         \
            sum_places_##name(dst, srcs, n_srcs, at, SUM_UNROLL, LANES, f);    \
        FOR_LANES(end - rest, {                                                \
            sum_places_##name(dst, srcs, n_srcs, rest + i, 1, m, f);           \
        });                                                                    \
    }

REDUCE_SUM(f32, float, vf_load, vf_store)
REDUCE_SUM(f32_stream, float, vf_load, vf_stream)
REDUCE_SUM(f16, uint16_t, vf_load_f16, vf_store_f16)
REDUCE_SUM(bf16, uint16_t, vf_load_bf16_bits, vf_store_bf16)

/*
 * Whether to write past the caches: the arrays are larger than those anyway,
 * and the output would be read first, only to be overwritten. Not if it is one
 * of the sources, which are read in any case.
 */
static bool should_stream(const float *dst, const void *const *srcs, int n_srcs,
                          size_t n)
{
    const size_t caches = (size_t)32 << 20;
    for (int s = 0; s < n_srcs; s++)
        if (srcs[s] == dst)
            return false;
    return n * sizeof(float) >= caches / (size_t)(n_srcs + 1) &&
           (uintptr_t)dst % sizeof(float) == 0;
}

static void sum_f32(float *dst, const void *const *srcs, int n_srcs, size_t n,
                    double factor)
{
    if (!should_stream(dst, srcs, n_srcs, n)) {
        reduce_sum_f32(dst, srcs, n_srcs, 0, n, factor);
        return;
    }
    const size_t vector = LANES * sizeof(float);
    const size_t off = (uintptr_t)dst % vector;
    const size_t head = off == 0 ? 0 : (vector - off) / sizeof(float);
    reduce_sum_f32(dst, srcs, n_srcs, 0, head, factor);
    reduce_sum_f32_stream(dst, srcs, n_srcs, head, n, factor);
    vf_stream_end();
}

static void scale_f64(double *x, size_t n, double factor)
{
    for (size_t i = 0; i < n; i++)
        x[i] *= factor;
}

/* The types of which sums have a path of their own. */
static bool reduce_sum(void *dst, const void *const *srcs, int n_srcs, size_t n,
                       ls_dtype dtype, double factor)
{
    if (dtype == LS_F32)
        sum_f32(dst, srcs, n_srcs, n, factor);
    else if (dtype == LS_F16)
        reduce_sum_f16(dst, srcs, n_srcs, 0, n, factor);
    else if (dtype == LS_BF16)
        reduce_sum_bf16(dst, srcs, n_srcs, 0, n, factor);
    else
        return false;
    return true;
}

void LSI_SIMD(reduce)(void *dst, const void *const *srcs, int n_srcs, size_t n,
                      ls_dtype dtype, ls_reduce_op op, double factor)
{
    if (op == LS_SUM && reduce_sum(dst, srcs, n_srcs, n, dtype, factor))
        return;
    switch (dtype) {
#define CASE(TYPE, name)                                                       \
case LS_##TYPE:                                                                \
    reduce_##name(dst, srcs, n_srcs, n, op);                                   \
    break;
        CASE(F32, f32)
        CASE(F64, f64)
        CASE(F16, f16)
        CASE(BF16, bf16)
        CASE(I8, i8)
        CASE(U8, u8)
        CASE(I32, i32)
        CASE(I64, i64)
#undef CASE
    }
    if (dtype == LS_F64 && op == LS_SUM && factor != 1.0)
        scale_f64(dst, n, factor);
}

#endif
