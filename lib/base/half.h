/*
 * Scalar conversions between f32 and the half types: IEEE binary16 and
 * bfloat16, both rounded to nearest, ties to even; NaN stays a (quiet) NaN.
 */
#ifndef LS_BASE_HALF_H
#define LS_BASE_HALF_H

#include <stdint.h>

uint16_t lsi_f16_from_f32(float value);
float lsi_f16_to_f32(uint16_t bits);
uint16_t lsi_bf16_from_f32(float value);
float lsi_bf16_to_f32(uint16_t bits);

#endif
