/*
 * Reductions over several arrays. A chunk is accumulated in a local array that
 * stays in the first-level cache; its loops over plain elements are what
 * compilers vectorize well. The common case, the sum of f32, is kept in
 * registers instead.
 */
enum { REDUCE_CHUNK = 512 };

INLINE size_t reduce_chunk(size_t n, size_t done)
{
    return n - done < REDUCE_CHUNK ? n - done : REDUCE_CHUNK;
}

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
                              size_t n, ls_reduce_op op, double factor)        \
    {                                                                          \
        type acc[REDUCE_CHUNK];                                                \
        for (size_t at = 0; at < n; at += REDUCE_CHUNK) {                      \
            const size_t m = reduce_chunk(n, at);                              \
            memcpy(acc, (const type *)srcs[0] + at, m * sizeof(type));         \
            for (int s = 1; s < n_srcs; s++)                                   \
                steps_##name[op](acc, (const type *)srcs[s] + at, m);          \
            if (op == LS_SUM && factor != 1.0)                                 \
                scale_##name(acc, factor, m);                                  \
            memcpy(dst + at, acc, m * sizeof(type));                           \
        }                                                                      \
    }

#define NO_FACTOR(name, type)                                                  \
    INLINE void scale_##name(type *acc, double factor, size_t n)               \
    {                                                                          \
        (void)acc;                                                             \
        (void)factor;                                                          \
        (void)n;                                                               \
    }

INLINE void scale_f32(float *acc, double factor, size_t n)
{
    for (size_t i = 0; i < n; i++)
        acc[i] *= (float)factor;
}

INLINE void scale_f64(double *acc, double factor, size_t n)
{
    for (size_t i = 0; i < n; i++)
        acc[i] *= factor;
}

NO_FACTOR(i8, int8_t)
NO_FACTOR(u8, uint8_t)
NO_FACTOR(i32, int32_t)
NO_FACTOR(i64, int64_t)

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
                              int n_srcs, size_t n, ls_reduce_op op,           \
                              double factor)                                   \
    {                                                                          \
        float acc[REDUCE_CHUNK];                                               \
        float x[REDUCE_CHUNK];                                                 \
        for (size_t at = 0; at < n; at += REDUCE_CHUNK) {                      \
            const size_t chunk = reduce_chunk(n, at);                          \
            load_chunk_##name(acc, (const uint16_t *)srcs[0] + at, chunk);     \
            for (int s = 1; s < n_srcs; s++) {                                 \
                load_chunk_##name(x, (const uint16_t *)srcs[s] + at, chunk);   \
                steps_f32[op](acc, x, chunk);                                  \
            }                                                                  \
            if (op == LS_SUM && factor != 1.0)                                 \
                scale_f32(acc, factor, chunk);                                 \
            FOR_LANES(chunk, {                                                 \
                vf_store_##name(dst + at + i, vf_load(acc + i, m), m);         \
            });                                                                \
        }                                                                      \
    }

REDUCE_HALF(f16)
REDUCE_HALF(bf16)

INLINE vf sum_lanes(const void *const *srcs, int n_srcs, size_t at, size_t m)
{
    vf total = vf_load((const float *)srcs[0] + at, m);
    for (int s = 1; s < n_srcs; s++)
        total = vf_add(total, vf_load((const float *)srcs[s] + at, m));
    return total;
}

/* UNROLL vectors in flight: one alone would wait for each addition. */
INLINE size_t sum_unrolled(float *dst, const void *const *srcs, int n_srcs,
                           size_t n, vf factor)
{
    enum { UNROLL = 4 };
    size_t at = 0;
    for (; at + UNROLL * LANES <= n; at += UNROLL * LANES) {
        vf total[UNROLL];
        for (size_t u = 0; u < UNROLL; u++)
            total[u] = vf_load((const float *)srcs[0] + at + u * LANES, LANES);
        for (int s = 1; s < n_srcs; s++)
            for (size_t u = 0; u < UNROLL; u++)
                total[u] = vf_add(
                    total[u],
                    vf_load((const float *)srcs[s] + at + u * LANES, LANES));
        for (size_t u = 0; u < UNROLL; u++)
            vf_store(dst + at + u * LANES, vf_mul(total[u], factor), LANES);
    }
    return at;
}

static void reduce_sum_f32(float *dst, const void *const *srcs, int n_srcs,
                           size_t n, double factor)
{
    const vf f = vf_set((float)factor); /* a product with 1 changes nothing */
    const size_t done = sum_unrolled(dst, srcs, n_srcs, n, f);
    FOR_LANES(n - done, {
        const vf total = sum_lanes(srcs, n_srcs, done + i, m);
        vf_store(dst + done + i, vf_mul(total, f), m);
    });
}

void LSI_SIMD(reduce)(void *dst, const void *const *srcs, int n_srcs, size_t n,
                      ls_dtype dtype, ls_reduce_op op, double factor)
{
    switch (dtype) {
    case LS_F32:
        if (op == LS_SUM)
            reduce_sum_f32(dst, srcs, n_srcs, n, factor);
        else
            reduce_f32(dst, srcs, n_srcs, n, op, factor);
        break;
    case LS_F64:
        reduce_f64(dst, srcs, n_srcs, n, op, factor);
        break;
    case LS_F16:
        reduce_f16(dst, srcs, n_srcs, n, op, factor);
        break;
    case LS_BF16:
        reduce_bf16(dst, srcs, n_srcs, n, op, factor);
        break;
    case LS_I8:
        reduce_i8(dst, srcs, n_srcs, n, op, factor);
        break;
    case LS_U8:
        reduce_u8(dst, srcs, n_srcs, n, op, factor);
        break;
    case LS_I32:
        reduce_i32(dst, srcs, n_srcs, n, op, factor);
        break;
    case LS_I64:
        reduce_i64(dst, srcs, n_srcs, n, op, factor);
        break;
    }
}
