/*
 * Reductions over several arrays, by folding: the fold of sources `first`,
 * first + stride, ... joins that of every other one of them, from the first on,
 * with that of the rest, as in ref/reduce.c. A chunk of each partial result
 * lies in a local array that stays in the first-level cache; loops over plain
 * elements are what compilers vectorize well. The common case, sums of up to
 * four arrays of f32 or halves, is kept in registers instead.
 */
#ifndef LS_FOLD_SIMD_REDUCE_H
#define LS_FOLD_SIMD_REDUCE_H

#include "fold/levels.h"
#include "fold/simd/words.h"

enum { REDUCE_CHUNK = 512 };

#define REDUCE_ADD(acc, x) ((acc) + (x))
#define REDUCE_MUL(acc, x) ((acc) * (x))
#define REDUCE_AND(acc, x) ((acc) & (x))
#define REDUCE_OR(acc, x)  ((acc) | (x))
#define REDUCE_XOR(acc, x) ((acc) ^ (x))
#define REDUCE_MIN(acc, x) ((x) < (acc) || (x) != (x) ? (x) : (acc))
#define REDUCE_MAX(acc, x) ((x) > (acc) || (x) != (x) ? (x) : (acc))

/* acc[i] = acc[i] op x[i]; arithmetic in `wide`, where it cannot overflow. */
#define REDUCE_STEP(name, type, wide, OP)                                      \
    static void name(type *restrict acc, const type *restrict x, size_t n)     \
    {                                                                          \
        for (size_t i = 0; i < n; i++)                                         \
            acc[i] = (type)OP((wide)acc[i], (wide)x[i]);                       \
    }

/* A chunk of the sources: elements at..at+m-1. */
typedef struct reduce_chunk {
    const void *const *srcs;
    int n_srcs;
    ls_reduce_op op;
    size_t at, m;
} reduce_chunk;

/* The reduction of a type by the steps of the one it is computed in. */
#define REDUCE_FOLD(name, type, wide, steps)                                   \
    static void fold_##name(wide *acc, const reduce_chunk *c, int first,       \
                            int stride)                                        \
    {                                                                          \
        if (first + stride >= c->n_srcs) {                                     \
            load_##name(acc, (const type *)c->srcs[first] + c->at, c->m);      \
            return;                                                            \
        }                                                                      \
        wide more[REDUCE_CHUNK];                                               \
        fold_##name(acc, c, first, 2 * stride);                                \
        fold_##name(more, c, first + stride, 2 * stride);                      \
        steps_##steps[c->op](acc, more, c->m);                                 \
    }                                                                          \
    static void reduce_##name(type *dst, const void *const *srcs, int n_srcs,  \
                              size_t n, ls_reduce_op op)                       \
    {                                                                          \
        wide acc[REDUCE_CHUNK];                                                \
        for (size_t at = 0; at < n; at += REDUCE_CHUNK) {                      \
            const size_t m = smaller(n - at, REDUCE_CHUNK);                    \
            const reduce_chunk chunk = {srcs, n_srcs, op, at, m};              \
            fold_##name(acc, &chunk, 0, 1);                                    \
            store_##name(dst + at, acc, m);                                    \
        }                                                                      \
    }

/* The steps of a type, others too, and the reduction made of them. */
#define REDUCE_TYPE(name, type, wide, ...)                                     \
    REDUCE_STEP(step_sum_##name, type, wide, REDUCE_ADD)                       \
    REDUCE_STEP(step_min_##name, type, type, REDUCE_MIN)                       \
    REDUCE_STEP(step_max_##name, type, type, REDUCE_MAX)                       \
    REDUCE_STEP(step_prod_##name, type, wide, REDUCE_MUL)                      \
    typedef void step_fn_##name(type *restrict, const type *restrict, size_t); \
    static step_fn_##name *const steps_##name[LS_REDUCE_OP_COUNT] = {          \
        [LS_SUM] = step_sum_##name,                                            \
        [LS_MIN] = step_min_##name,                                            \
        [LS_MAX] = step_max_##name,                                            \
        [LS_PROD] = step_prod_##name,                                          \
        __VA_ARGS__};                                                          \
    static void load_##name(type *restrict to, const type *restrict x,         \
                            size_t n)                                          \
    {                                                                          \
        memcpy(to, x, n * sizeof(type));                                       \
    }                                                                          \
    static void store_##name(type *restrict to, const type *restrict x,        \
                             size_t n)                                         \
    {                                                                          \
        memcpy(to, x, n * sizeof(type));                                       \
    }                                                                          \
    REDUCE_FOLD(name, type, type, name)

#define REDUCE_INTEGER(name, type, wide)                                       \
    REDUCE_STEP(step_band_##name, type, wide, REDUCE_AND)                      \
    REDUCE_STEP(step_bor_##name, type, wide, REDUCE_OR)                        \
    REDUCE_STEP(step_bxor_##name, type, wide, REDUCE_XOR)                      \
    REDUCE_TYPE(name, type, wide, [LS_BAND] = step_band_##name,                \
                [LS_BOR] = step_bor_##name, [LS_BXOR] = step_bxor_##name)

REDUCE_TYPE(f32, float, float, [LS_AVG] = NULL)
REDUCE_TYPE(f64, double, double, [LS_AVG] = NULL)
REDUCE_INTEGER(i8, int8_t, uint8_t)
REDUCE_INTEGER(u8, uint8_t, uint8_t)
REDUCE_INTEGER(i32, int32_t, uint32_t)
REDUCE_INTEGER(i64, int64_t, uint64_t)

/* Truth values: any but 0 counts as 1. */
REDUCE_STEP(step_all_bool, uint8_t, uint8_t, REDUCE_AND)
REDUCE_STEP(step_any_bool, uint8_t, uint8_t, REDUCE_OR)
REDUCE_STEP(step_odd_bool, uint8_t, uint8_t, REDUCE_XOR)

static step_fn_u8 *const steps_bool[LS_REDUCE_OP_COUNT] = {
    [LS_SUM] = step_any_bool,  [LS_MIN] = step_all_bool,
    [LS_MAX] = step_any_bool,  [LS_PROD] = step_all_bool,
    [LS_BAND] = step_all_bool, [LS_BOR] = step_any_bool,
    [LS_BXOR] = step_odd_bool};

static void load_bool(uint8_t *restrict to, const uint8_t *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = x[i] != 0;
}

static void store_bool(uint8_t *restrict to, const uint8_t *restrict x,
                       size_t n)
{
    memcpy(to, x, n);
}

REDUCE_FOLD(bool, uint8_t, uint8_t, bool)

/* Halves: chunks of them as f32. */
#define REDUCE_HALF(name)                                                      \
    static void load_##name(float *out, const uint16_t *x, size_t n)           \
    {                                                                          \
        FOR_LANES(n, { vf_store(out + i, vf_load_##name(x + i, m), m); });     \
    }                                                                          \
    static void store_##name(uint16_t *out, const float *x, size_t n)          \
    {                                                                          \
        FOR_LANES(n, { vf_store_##name(out + i, vf_load(x + i, m), m); });     \
    }                                                                          \
    REDUCE_FOLD(name, uint16_t, float, f32)

REDUCE_HALF(f16)
REDUCE_HALF(bf16)

/*
 * Sums of types that are added as f32: the vectors of SUM_UNROLL places are in
 * flight together, as one alone would wait for each addition.
 */
enum { SUM_UNROLL = 4, SUM_FEW = 4 };

/* Up to SUM_FEW sources, in registers; times a factor of 1 changes nothing. */
#define SUM_OF_FEW(name, type, to_type, LOAD, STORE)                           \
    INLINE void sum_places_##name(to_type *dst, const type *const *srcs,       \
                                  int n_srcs, size_t at, size_t places,        \
                                  size_t m, vf factor)                         \
    {                                                                          \
        vf even[SUM_UNROLL];                                                   \
        for (size_t u = 0; u < places; u++)                                    \
            even[u] = LOAD(srcs[0] + at + u * LANES, m);                       \
        for (size_t u = 0; u < places && n_srcs > 2; u++)                      \
            even[u] = vf_add(even[u], LOAD(srcs[2] + at + u * LANES, m));      \
        for (size_t u = 0; u < places && n_srcs > 1; u++) {                    \
            vf odd = LOAD(srcs[1] + at + u * LANES, m);                        \
            if (n_srcs > 3)                                                    \
                odd = vf_add(odd, LOAD(srcs[3] + at + u * LANES, m));          \
            even[u] = vf_add(even[u], odd);                                    \
        }                                                                      \
        for (size_t u = 0; u < places; u++)                                    \
            STORE(dst + u * LANES, vf_mul(even[u], factor), m);                \
    }                                                                          \
    INLINE void sum_few_n_##name(to_type *dst, const type *const *srcs,        \
                                 int n_srcs, size_t at, size_t n, vf factor)   \
    {                                                                          \
        const size_t step = SUM_UNROLL * LANES, rest = n / step * step;        \
        for (size_t i = 0; i < rest; i += step)                                \
            sum_places_##name(dst + i, srcs, n_srcs, at + i, SUM_UNROLL,       \
                              LANES, factor);                                  \
        FOR_LANES(n - rest, {                                                  \
            sum_places_##name(dst + rest + i, srcs, n_srcs, at + rest + i, 1,  \
                              m, factor);                                      \
        });                                                                    \
    }                                                                          \
    /* dst[i] = factor * sum of srcs[first + k * stride][at + i] */            \
    static void sum_few_##name(to_type *dst, const void *const *srcs,          \
                               int first, int stride, int n_srcs, size_t at,   \
                               size_t n, vf factor)                            \
    {                                                                          \
        const type *few[SUM_FEW] = {0};                                        \
        int k = 0;                                                             \
        for (int s = first; s < n_srcs; s += stride)                           \
            few[k++] = srcs[s];                                                \
        if (k == 1)                                                            \
            sum_few_n_##name(dst, few, 1, at, n, factor);                      \
        else if (k == 2)                                                       \
            sum_few_n_##name(dst, few, 2, at, n, factor);                      \
        else if (k == 3)                                                       \
            sum_few_n_##name(dst, few, 3, at, n, factor);                      \
        else                                                                   \
            sum_few_n_##name(dst, few, 4, at, n, factor);                      \
    }

/* Any number of sources: more than a few are folded by chunks. */
#define REDUCE_SUM(name, type, LOAD, STORE)                                    \
    SUM_OF_FEW(name, type, type, LOAD, STORE)                                  \
    SUM_OF_FEW(name##_part, type, float, LOAD, vf_store)                       \
    static void fold_sum_##name(float *acc, const reduce_chunk *c, int first,  \
                                int stride)                                    \
    {                                                                          \
        if (first + SUM_FEW * stride >= c->n_srcs) {                           \
            sum_few_##name##_part(acc, c->srcs, first, stride, c->n_srcs,      \
                                  c->at, c->m, vf_set(1.0F));                  \
            return;                                                            \
        }                                                                      \
        float more[REDUCE_CHUNK];                                              \
        fold_sum_##name(acc, c, first, 2 * stride);                            \
        fold_sum_##name(more, c, first + stride, 2 * stride);                  \
        steps_f32[LS_SUM](acc, more, c->m);                                    \
    }                                                                          \
    static void reduce_sum_##name(type *dst, const void *const *srcs,          \
                                  int n_srcs, size_t begin, size_t end,        \
                                  double factor)                               \
    {                                                                          \
        const vf f = vf_set((float)factor);                                    \
        if (n_srcs <= SUM_FEW) {                                               \
            sum_few_##name(dst + begin, srcs, 0, 1, n_srcs, begin,             \
                           end - begin, f);                                    \
            return;                                                            \
        }                                                                      \
        float acc[REDUCE_CHUNK];                                               \
        for (size_t at = begin; at < end; at += REDUCE_CHUNK) {                \
            const size_t chunk = smaller(end - at, REDUCE_CHUNK);              \
            const reduce_chunk c = {srcs, n_srcs, LS_SUM, at, chunk};          \
            fold_sum_##name(acc, &c, 0, 1);                                    \
            FOR_LANES(chunk, {                                                 \
                STORE(dst + at + i, vf_mul(vf_load(acc + i, m), f), m);        \
            });                                                                \
        }                                                                      \
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

static void reduce(void *dst, const void *const *srcs, int n_srcs, size_t n,
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
        CASE(BOOL, bool)
#undef CASE
    }
    if (dtype == LS_F64 && op == LS_SUM && factor != 1.0)
        scale_f64(dst, n, factor);
}

#endif
