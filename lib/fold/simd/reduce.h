/*
 * Reductions over several arrays, by folding, as in ref/reduce.c. The fold of
 * sources `first`, first + stride, ... joins the fold of every other one of
 * them with that of the rest. A chunk of each partial result is in a local
 * array that stays in the first-level cache. Compilers vectorize loops over
 * plain elements well. The common case, sums of up to four arrays of f32 or
 * halves, is kept in registers instead.
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
typedef void reduce_step(void *restrict acc, const void *restrict x, size_t n);

#define REDUCE_STEP(name, type, wide, OP)                                      \
    static void name(void *restrict to, const void *restrict from, size_t n)   \
    {                                                                          \
        type *restrict acc = to;                                               \
        const type *restrict x = from;                                         \
        for (size_t i = 0; i < n; i++)                                         \
            acc[i] = (type)OP((wide)acc[i], (wide)x[i]);                       \
    }

/* The steps of a type, and `...` others. */
#define REDUCE_TYPE(name, type, wide, ...)                                     \
    REDUCE_STEP(step_sum_##name, type, wide, REDUCE_ADD)                       \
    REDUCE_STEP(step_min_##name, type, type, REDUCE_MIN)                       \
    REDUCE_STEP(step_max_##name, type, type, REDUCE_MAX)                       \
    REDUCE_STEP(step_prod_##name, type, wide, REDUCE_MUL)                      \
    static reduce_step *const steps_##name[LS_REDUCE_OP_COUNT] = {             \
        [LS_REDUCE_SUM] = step_sum_##name,                                     \
        [LS_REDUCE_MIN] = step_min_##name,                                     \
        [LS_REDUCE_MAX] = step_max_##name,                                     \
        [LS_REDUCE_PROD] = step_prod_##name,                                   \
        __VA_ARGS__};

#define REDUCE_INTEGER(name, type, wide)                                       \
    REDUCE_STEP(step_band_##name, type, wide, REDUCE_AND)                      \
    REDUCE_STEP(step_bor_##name, type, wide, REDUCE_OR)                        \
    REDUCE_STEP(step_bxor_##name, type, wide, REDUCE_XOR)                      \
    REDUCE_TYPE(name, type, wide, [LS_REDUCE_BAND] = step_band_##name,         \
                [LS_REDUCE_BOR] = step_bor_##name,                             \
                [LS_REDUCE_BXOR] = step_bxor_##name)

REDUCE_TYPE(f32, float, float, [LS_REDUCE_AVG] = NULL)
REDUCE_TYPE(f64, double, double, [LS_REDUCE_AVG] = NULL)
REDUCE_INTEGER(i8, int8_t, uint8_t)
REDUCE_INTEGER(u8, uint8_t, uint8_t)
REDUCE_INTEGER(i32, int32_t, uint32_t)
REDUCE_INTEGER(i64, int64_t, uint64_t)

/* Truth values: any but 0 counts as 1. */
REDUCE_STEP(step_all_bool, uint8_t, uint8_t, REDUCE_AND)
REDUCE_STEP(step_any_bool, uint8_t, uint8_t, REDUCE_OR)
REDUCE_STEP(step_odd_bool, uint8_t, uint8_t, REDUCE_XOR)

static reduce_step *const steps_bool[LS_REDUCE_OP_COUNT] = {
    [LS_REDUCE_SUM] = step_any_bool,  [LS_REDUCE_MIN] = step_all_bool,
    [LS_REDUCE_MAX] = step_any_bool,  [LS_REDUCE_PROD] = step_all_bool,
    [LS_REDUCE_BAND] = step_all_bool, [LS_REDUCE_BOR] = step_any_bool,
    [LS_REDUCE_BXOR] = step_odd_bool};

static void load_bool(void *restrict to, const void *restrict from, size_t n)
{
    uint8_t *restrict truth = to;
    const uint8_t *restrict x = from;
    for (size_t i = 0; i < n; i++)
        truth[i] = x[i] != 0;
}

/* Halves: chunks of them as f32. */
#define REDUCE_HALF(name)                                                      \
    static void load_##name(void *restrict to, const void *restrict from,      \
                            size_t n)                                          \
    {                                                                          \
        float *out = to;                                                       \
        const uint16_t *x = from;                                              \
        FOR_LANES(n, { vf_store(out + i, vf_load_##name(x + i, m), m); });     \
    }                                                                          \
    static void store_##name(void *restrict to, const void *restrict from,     \
                             size_t n)                                         \
    {                                                                          \
        uint16_t *out = to;                                                    \
        const float *x = from;                                                 \
        FOR_LANES(n, { vf_store_##name(out + i, vf_load(x + i, m), m); });     \
    }

REDUCE_HALF(f16)
REDUCE_HALF(bf16)

/* How a type is folded; `load` and `store` are NULL where bytes are copied. */
typedef struct reduce_type {
    size_t size;
    reduce_step *load, *store;
    reduce_step *const *steps;
} reduce_type;

static const reduce_type reduce_types[LS_DTYPE_COUNT] = {
    [LS_F32] = {sizeof(float), NULL, NULL, steps_f32},
    [LS_F64] = {sizeof(double), NULL, NULL, steps_f64},
    [LS_F16] = {sizeof(uint16_t), load_f16, store_f16, steps_f32},
    [LS_BF16] = {sizeof(uint16_t), load_bf16, store_bf16, steps_f32},
    [LS_I8] = {sizeof(int8_t), NULL, NULL, steps_i8},
    [LS_U8] = {sizeof(uint8_t), NULL, NULL, steps_u8},
    [LS_I32] = {sizeof(int32_t), NULL, NULL, steps_i32},
    [LS_I64] = {sizeof(int64_t), NULL, NULL, steps_i64},
    [LS_BOOL] = {sizeof(uint8_t), load_bool, NULL, steps_bool}};

/*
 * A chunk of any type, whose lines are those of vectors. A line more than a
 * page of doubles, so that two on the stack do not lie at equal addresses
 * modulo 4096.
 */
typedef union reduce_block {
    _Alignas(64) float f32[REDUCE_CHUNK];
    double f64[REDUCE_CHUNK + 8];
    uint8_t u8[REDUCE_CHUNK];
    uint32_t u32[REDUCE_CHUNK];
    uint64_t u64[REDUCE_CHUNK];
} reduce_block;

/* A chunk of the sources: elements at..at+m-1. */
typedef struct reduce_chunk {
    const void *const *srcs;
    int n_srcs;
    size_t at, m;
    const reduce_type *type;
    reduce_step *step;
} reduce_chunk;

/* Source s as its type is computed: in its place, or loaded into `to`. */
static const void *chunk_of(reduce_block *to, const reduce_chunk *c, int s)
{
    const size_t size = c->type->size;
    const char *from = (const char *)c->srcs[s] + c->at * size;
    if (c->type->load != NULL)
        c->type->load(to, from, c->m);
    else if ((uintptr_t)from % size == 0)
        return from;
    else
        memcpy(to, from, c->m * size);
    return to;
}

static void fold_chunk(reduce_block *acc, const reduce_chunk *c, int first,
                       int stride)
{
    if (first + stride >= c->n_srcs) {
        const void *x = chunk_of(acc, c, first);
        if (x != acc)
            memcpy(acc, x, c->m * c->type->size);
        return;
    }
    fold_chunk(acc, c, first, 2 * stride);
    const int second = first + stride;
    reduce_block more;
    const void *x = &more;
    if (second + 2 * stride >= c->n_srcs)
        x = chunk_of(&more, c, second);
    else
        fold_chunk(&more, c, second, 2 * stride);
    c->step(acc, x, c->m);
}

static void reduce_chunks(void *dst, const void *const *srcs, int n_srcs,
                          size_t n, const reduce_type *type, ls_reduce_op op)
{
    reduce_block acc;
    reduce_chunk c = {srcs, n_srcs, 0, 0, type, type->steps[op]};
    for (; c.at < n; c.at += REDUCE_CHUNK) {
        c.m = smaller(n - c.at, REDUCE_CHUNK);
        fold_chunk(&acc, &c, 0, 1);
        char *to = (char *)dst + c.at * type->size;
        if (type->store != NULL)
            type->store(to, &acc, c.m);
        else
            memcpy(to, &acc, c.m * type->size);
    }
}

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
        steps_f32[LS_REDUCE_SUM](acc, more, c->m);                             \
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
            const reduce_chunk c = {srcs, n_srcs, at, chunk, NULL, NULL};      \
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

/* The types whose sums have a separate path. */
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
    if (op == LS_REDUCE_SUM && reduce_sum(dst, srcs, n_srcs, n, dtype, factor))
        return;
    reduce_chunks(dst, srcs, n_srcs, n, &reduce_types[dtype], op);
    if (dtype == LS_F64 && op == LS_REDUCE_SUM && factor != 1.0)
        scale_f64(dst, n, factor);
}

#endif
