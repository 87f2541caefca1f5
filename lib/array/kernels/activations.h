/*
 * GELU in its tanh form, x (1 + tanh(u)) / 2 with
 * u = sqrt(2 / pi) (x + 0.044715 x^3), is x / (1 + e^-2u). These are the
 * coefficients of 2u.
 */
#ifndef LS_ARRAY_KERNELS_ACTIVATIONS_H
#define LS_ARRAY_KERNELS_ACTIVATIONS_H

#define LSI_GELU_LINEAR 1.59576912160573071176
#define LSI_GELU_CUBIC  (LSI_GELU_LINEAR * 0.044715)

#endif
