/*
 * Conversion between any two element types. Every integer type fits in int64_t
 * and every floating type in double without loss. So each source type needs one
 * load, and each target one store from either of the two.
 */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/lists.h"
#include "fold/levels.h"

/*
 * f32 from double, rounded to odd: a second rounding, to a half type, then
 * gives what one rounding would have given.
 */
static float round_to_odd(double value)
{
    float nearest = (float)value;
    if ((double)nearest == value || isnan(value))
        return nearest;
    uint32_t bits;
    memcpy(&bits, &nearest, sizeof bits);
    if ((bits & 1U) == 0) /* the odd neighbour on the value's side */
        nearest =
            nextafterf(nearest, value > (double)nearest ? INFINITY : -INFINITY);
    return nearest;
}

/* Double from int64_t, rounded to odd for the same reason. */
static double round_int_to_odd(int64_t value)
{
    const uint64_t magnitude =
        value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    if (magnitude >> 53 == 0)
        return (double)value;
    const bool lost = (magnitude & 0x7FF) != 0;
    const uint64_t odd = (magnitude & ~(uint64_t)0x7FF) | (lost ? 0x800 : 0);
    return value < 0 ? -(double)odd : (double)odd;
}

/* Towards zero; outside the range its end; NaN gives 0. */
static int64_t saturate(double value, int64_t low, int64_t high)
{
    if (isnan(value))
        return 0;
    if (value <= (double)low)
        return low;
    if (value >= (double)high) /* 2^63 for i64: one past the end */
        return high;
    return (int64_t)value;
}

#define LOAD_PLAIN(x) (x)
#define LOAD_BOOL(x)  ((x) != 0)
#define LOAD_F16(x)   ((double)lsi_f16_to_f32(x))
#define LOAD_BF16(x)  ((double)lsi_bf16_to_f32(x))

#define F64_TO_F32(x)  ((float)(x))
#define F64_TO_F64(x)  (x)
#define F64_TO_F16(x)  lsi_f16_from_f32(round_to_odd(x))
#define F64_TO_BF16(x) lsi_bf16_from_f32(round_to_odd(x))
#define F64_TO_I8(x)   ((int8_t)saturate(x, INT8_MIN, INT8_MAX))
#define F64_TO_U8(x)   ((uint8_t)saturate(x, 0, UINT8_MAX))
#define F64_TO_I32(x)  ((int32_t)saturate(x, INT32_MIN, INT32_MAX))
#define F64_TO_I64(x)  saturate(x, INT64_MIN, INT64_MAX)
#define F64_TO_BOOL(x) ((uint8_t)((x) != 0))

#define I64_TO_F32(x)  ((float)(x))
#define I64_TO_F64(x)  ((double)(x))
#define I64_TO_F16(x)  lsi_f16_from_f32(round_to_odd(round_int_to_odd(x)))
#define I64_TO_BF16(x) lsi_bf16_from_f32(round_to_odd(round_int_to_odd(x)))
#define I64_TO_I8(x)   ((int8_t)(x))
#define I64_TO_U8(x)   ((uint8_t)(x))
#define I64_TO_I32(x)  ((int32_t)(x))
#define I64_TO_I64(x)  (x)
#define I64_TO_BOOL(x) ((uint8_t)((x) != 0))

/* X(type, C type in memory, wide C type, its name, LOAD) */
#define SOURCES(X, ...)                                                        \
    X(F32, float, double, F64, LOAD_PLAIN, __VA_ARGS__)                        \
    X(F64, double, double, F64, LOAD_PLAIN, __VA_ARGS__)                       \
    X(F16, uint16_t, double, F64, LOAD_F16, __VA_ARGS__)                       \
    X(BF16, uint16_t, double, F64, LOAD_BF16, __VA_ARGS__)                     \
    X(I8, int8_t, int64_t, I64, LOAD_PLAIN, __VA_ARGS__)                       \
    X(U8, uint8_t, int64_t, I64, LOAD_PLAIN, __VA_ARGS__)                      \
    X(I32, int32_t, int64_t, I64, LOAD_PLAIN, __VA_ARGS__)                     \
    X(I64, int64_t, int64_t, I64, LOAD_PLAIN, __VA_ARGS__)                     \
    X(BOOL, uint8_t, int64_t, I64, LOAD_BOOL, __VA_ARGS__)

#define CASE(type, c_type, wide_t, wide, LOAD, target)                         \
    case LS_##type:                                                            \
        for (size_t i = 0; i < n; i++) {                                       \
            const wide_t x = LOAD(((const c_type *)src)[i]);                   \
            out[i] = wide##_TO_##target(x);                                    \
        }                                                                      \
        break;

/* One function for each target type. */
#define CONVERT_TO(target, c_type)                                             \
    static void to_##target(void *dst, const void *src, ls_dtype src_dtype,    \
                            size_t n)                                          \
    {                                                                          \
        c_type *out = dst;                                                     \
        switch (src_dtype) {                                                   \
            SOURCES(CASE, target)                                              \
        }                                                                      \
    }

CONVERT_TO(F32, float)
CONVERT_TO(F64, double)
CONVERT_TO(F16, uint16_t)
CONVERT_TO(BF16, uint16_t)
CONVERT_TO(I8, int8_t)
CONVERT_TO(U8, uint8_t)
CONVERT_TO(I32, int32_t)
CONVERT_TO(I64, int64_t)
CONVERT_TO(BOOL, uint8_t)

void lsi_ref_convert(void *dst, ls_dtype dst_dtype, const void *src,
                     ls_dtype src_dtype, size_t n)
{
    typedef void to_fn(void *, const void *, ls_dtype, size_t);
    static to_fn *const functions[LS_DTYPE_COUNT] = {
#define X(name, value, text, size) [LS_##name] = to_##name,
        LSI_DTYPE_LIST(X)
#undef X
    };
    if (dst_dtype != src_dtype)
        functions[dst_dtype](dst, src, src_dtype, n);
    else if (n > 0 && dst != src)
        memcpy(dst, src, n * ls_dtype_size(dst_dtype));
}
