/*
 * Scalar half conversions in integer arithmetic: the definition of truth for
 * the vector kernels, and independent of the rounding mode.
 */
#include "base/half.h"

#include <string.h>

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* bits / 2^shift, to nearest, ties to even; shift in 1..31. */
static uint32_t shift_round(uint32_t bits, unsigned shift)
{
    uint32_t half = 1U << (shift - 1);
    uint32_t rest = bits & ((1U << shift) - 1);
    uint32_t result = bits >> shift;
    if (rest > half || (rest == half && (result & 1U)))
        result++;
    return result;
}

uint16_t lsi_f16_from_f32(float value)
{
    const uint32_t bits = bits_of(value);
    const uint32_t sign = (bits >> 16) & 0x8000U;
    const uint32_t magnitude = bits & 0x7fffffffU;
    if (magnitude > 0x7f800000U) /* NaN: keep what fits of the payload */
        return (uint16_t)(sign | 0x7e00U | ((magnitude >> 13) & 0x3ffU));
    if (magnitude >= 0x47800000U) /* 2^16 and up: no finite value is near */
        return (uint16_t)(sign | 0x7c00U);
    if (magnitude >= 0x38800000U) /* normal; a carry may end in infinity */
        return (uint16_t)(sign | shift_round(magnitude - 0x38000000U, 13));
    const unsigned exponent = magnitude >> 23;
    if (exponent < 102) /* below 2^-25, half the smallest subnormal */
        return (uint16_t)sign;
    const uint32_t significand = (magnitude & 0x7fffffU) | 0x800000U;
    return (uint16_t)(sign | shift_round(significand, 126 - exponent));
}

float lsi_f16_to_f32(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000U) << 16;
    const uint32_t magnitude = bits & 0x7fffU;
    if (magnitude > 0x7c00U)
        return float_of(sign | 0x7fc00000U | (magnitude & 0x3ffU) << 13);
    if (magnitude == 0x7c00U)
        return float_of(sign | 0x7f800000U);
    if (magnitude >= 0x400U)
        return float_of(sign | ((magnitude << 13) + 0x38000000U));
    const float subnormal = (float)magnitude * 0x1p-24F;
    return sign ? -subnormal : subnormal;
}

uint16_t lsi_bf16_from_f32(float value)
{
    const uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U)
        return (uint16_t)((bits >> 16) | 0x40U);
    return (uint16_t)shift_round(bits, 16);
}

float lsi_bf16_to_f32(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    if ((wide & 0x7fffffffU) > 0x7f800000U)
        return float_of(wide | 0x400000U);
    return float_of(wide);
}
