/*
 * Reductions over several arrays of any type. One function for each pair of
 * type and operation, made by macros; integers are computed unsigned so that
 * overflow wraps.
 *
 * The fold (see fold.def) of n sources is a tree. Its root joins the fold of
 * the sources with even numbers and that of the sources with odd numbers.
 */
#include "base/half.h"
#include "fold/levels.h"

/* A comparison with NaN is false, so the last test lets NaN through. */
#define MIN(acc, x)        ((x) < (acc) || (x) != (x) ? (x) : (acc))
#define MAX(acc, x)        ((x) > (acc) || (x) != (x) ? (x) : (acc))
#define ADD(acc, x)        ((acc) + (x))
#define MUL(acc, x)        ((acc) * (x))
#define BITS_AND(acc, x)   ((acc) & (x))
#define BITS_OR(acc, x)    ((acc) | (x))
#define BITS_XOR(acc, x)   ((acc) ^ (x))
#define INT_MIN_OF(acc, x) ((x) < (acc) ? (x) : (acc))
#define INT_MAX_OF(acc, x) ((x) > (acc) ? (x) : (acc))

typedef void reduce_fn(void *dst, const void *const *srcs, int n_srcs, size_t n,
                       double factor);

#define SAME(x) (x)

/*
 * `store_t` lies in memory, `acc_t` is computed in; LOAD and STORE convert.
 * FINISH is applied to the accumulator before the store. The recursion is as
 * deep as the logarithm of the number of sources.
 */
#define REDUCE(name, store_t, acc_t, LOAD, STORE, OP, FINISH)                  \
    static acc_t fold_##name(const void *const *srcs, int first, int stride,   \
                             int n_srcs, size_t i)                             \
    {                                                                          \
        if (first + stride >= n_srcs)                                          \
            return LOAD(((const store_t *)srcs[first])[i]);                    \
        const acc_t acc = fold_##name(srcs, first, 2 * stride, n_srcs, i);     \
        const acc_t x =                                                        \
            fold_##name(srcs, first + stride, 2 * stride, n_srcs, i);          \
        return (acc_t)OP(acc, x);                                              \
    }                                                                          \
    static void name(void *dst, const void *const *srcs, int n_srcs, size_t n, \
                     double factor)                                            \
    {                                                                          \
        store_t *out = dst;                                                    \
        (void)factor;                                                          \
        for (size_t i = 0; i < n; i++) {                                       \
            const acc_t acc = fold_##name(srcs, 0, 1, n_srcs, i);              \
            out[i] = STORE((acc_t)FINISH(acc));                                \
        }                                                                      \
    }

#define TIMES_FACTOR_F32(acc) (factor != 1.0 ? (acc) * (float)factor : (acc))
#define TIMES_FACTOR_F64(acc) (factor != 1.0 ? (acc)*factor : (acc))

#define REDUCE_FLOAT(type, store_t, acc_t, LOAD, STORE, FACTOR)                \
    REDUCE(sum_##type, store_t, acc_t, LOAD, STORE, ADD, FACTOR)               \
    REDUCE(min_##type, store_t, acc_t, LOAD, STORE, MIN, SAME)                 \
    REDUCE(max_##type, store_t, acc_t, LOAD, STORE, MAX, SAME)                 \
    REDUCE(prod_##type, store_t, acc_t, LOAD, STORE, MUL, SAME)

/* Sums and products unsigned and 64 bits wide, then cut to size. */
#define REDUCE_INT(type, store_t)                                              \
    REDUCE(sum_##type, store_t, uint64_t, (uint64_t), (store_t), ADD, SAME)    \
    REDUCE(min_##type, store_t, store_t, SAME, SAME, INT_MIN_OF, SAME)         \
    REDUCE(max_##type, store_t, store_t, SAME, SAME, INT_MAX_OF, SAME)         \
    REDUCE(prod_##type, store_t, uint64_t, (uint64_t), (store_t), MUL, SAME)   \
    REDUCE(band_##type, store_t, store_t, SAME, SAME, BITS_AND, SAME)          \
    REDUCE(bor_##type, store_t, store_t, SAME, SAME, BITS_OR, SAME)            \
    REDUCE(bxor_##type, store_t, store_t, SAME, SAME, BITS_XOR, SAME)

#define TRUTH(x) ((x) != 0)
#define REDUCE_TRUTH(name, OP)                                                 \
    REDUCE(name, uint8_t, uint8_t, TRUTH, SAME, OP, SAME)

REDUCE_TRUTH(all_BOOL, BITS_AND)
REDUCE_TRUTH(any_BOOL, BITS_OR)
REDUCE_TRUTH(odd_BOOL, BITS_XOR)

REDUCE_FLOAT(F32, float, float, SAME, SAME, TIMES_FACTOR_F32)
REDUCE_FLOAT(F64, double, double, SAME, SAME, TIMES_FACTOR_F64)
REDUCE_FLOAT(F16, uint16_t, float, lsi_f16_to_f32, lsi_f16_from_f32,
             TIMES_FACTOR_F32)
REDUCE_FLOAT(BF16, uint16_t, float, lsi_bf16_to_f32, lsi_bf16_from_f32,
             TIMES_FACTOR_F32)
REDUCE_INT(I8, int8_t)
REDUCE_INT(U8, uint8_t)
REDUCE_INT(I32, int32_t)
REDUCE_INT(I64, int64_t)

#define ROW(name)                                                              \
    [LS_REDUCE_SUM] = sum_##name, [LS_REDUCE_MIN] = min_##name,                \
    [LS_REDUCE_MAX] = max_##name, [LS_REDUCE_PROD] = prod_##name
#define ROW_INT(name)                                                          \
    ROW(name), [LS_REDUCE_BAND] = band_##name, [LS_REDUCE_BOR] = bor_##name,   \
               [LS_REDUCE_BXOR] = bxor_##name

static reduce_fn *const functions[LS_DTYPE_COUNT][LS_REDUCE_OP_COUNT] = {
    [LS_F32] = {ROW(F32)},
    [LS_F64] = {ROW(F64)},
    [LS_F16] = {ROW(F16)},
    [LS_BF16] = {ROW(BF16)},
    [LS_I8] = {ROW_INT(I8)},
    [LS_U8] = {ROW_INT(U8)},
    [LS_I32] = {ROW_INT(I32)},
    [LS_I64] = {ROW_INT(I64)},
    [LS_BOOL] = {[LS_REDUCE_SUM] = any_BOOL,
                 [LS_REDUCE_MIN] = all_BOOL,
                 [LS_REDUCE_MAX] = any_BOOL,
                 [LS_REDUCE_PROD] = all_BOOL,
                 [LS_REDUCE_BAND] = all_BOOL,
                 [LS_REDUCE_BOR] = any_BOOL,
                 [LS_REDUCE_BXOR] = odd_BOOL},
};

void lsi_ref_reduce(void *dst, const void *const *srcs, int n_srcs, size_t n,
                    ls_dtype dtype, ls_reduce_op op, double factor)
{
    functions[dtype][op](dst, srcs, n_srcs, n, factor);
}
