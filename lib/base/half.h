/*
 * Scalar conversions between f32 and the half types: IEEE binary16 and
 * bfloat16, both rounded to nearest, ties to even; NaN stays a (quiet) NaN.
 */
#ifndef LS_BASE_HALF_H
#define LS_BASE_HALF_H

#include <stdbool.h>
#include <stdint.h>

#include "lockstep/types.h"

static inline bool lsi_is_half(ls_dtype dtype)
{
    return dtype == LS_F16 || dtype == LS_BF16;
}

uint16_t lsi_f16_from_f32(float value);
float lsi_f16_to_f32(uint16_t bits);
uint16_t lsi_bf16_from_f32(float value);
float lsi_bf16_to_f32(uint16_t bits);

#endif
