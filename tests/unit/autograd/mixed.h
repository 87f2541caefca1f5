/* Code that the tests of mixed precision share: both half types, and roundings.
 */
#ifndef TESTS_AUTOGRAD_MIXED_H
#define TESTS_AUTOGRAD_MIXED_H

#include "base/half.h"
#include "ops_fixture.h"
#include "testing.h"

static const ls_dtype halves[] = {LS_BF16, LS_F16};

/* One rounding to the type is at most this, relative to a normal number. */
static inline double unit_of(ls_dtype dtype)
{
    return dtype == LS_BF16 ? 0x1p-8 : 0x1p-11;
}

static inline double widened(const ls_tensor *t, int64_t i)
{
    const uint16_t *bits = tensor_data(t);
    switch (ls_tensor_dtype(t)) {
    case LS_BF16:
        return lsi_bf16_to_f32(bits[i]);
    case LS_F16:
        return lsi_f16_to_f32(bits[i]);
    default:
        return ((const float *)tensor_data(t))[i];
    }
}

static inline double rounded(const ls_tensor *t, int64_t i, ls_dtype dtype)
{
    const float x = ((const float *)tensor_data(t))[i];
    return dtype == LS_BF16 ? lsi_bf16_to_f32(lsi_bf16_from_f32(x))
                            : lsi_f16_to_f32(lsi_f16_from_f32(x));
}

static inline void assert_type(const ls_tensor *t, ls_dtype dtype)
{
    assert_non_null(t);
    assert_int_equal(ls_tensor_dtype(t), dtype);
}

#endif
