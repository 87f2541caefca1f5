/*
 * Functions that C libraries round differently. Each is one fixed sequence of
 * additions, multiplications and divisions, which IEEE 754 defines to the bit.
 * So all compilers, processors and C libraries give the same results. In lib/,
 * only functions that are exact or correctly rounded come from <math.h>: sqrt,
 * fma, floor, ldexp, ... (tests/install/test_libm.py).
 *
 * Special values are those of C17, Annex F. Errors are in units of the last
 * place of the result, of the smallest normal number for results below it.
 */
#ifndef LS_BASE_MATH_H
#define LS_BASE_MATH_H

/* The compiler may leave out calls whose result is not used. */
#define LSI_PURE __attribute__((const))

double lsi_exp(double x) LSI_PURE;   /* below 0.52; 0.76 below 2^-1022 */
double lsi_ln(double x) LSI_PURE;    /* below 0.52 */
double lsi_log1p(double x) LSI_PURE; /* below 0.7 */
double lsi_tanh(double x) LSI_PURE;  /* below 4 */
double lsi_sin(double x) LSI_PURE;   /* below 0.85, for x of any size */
double lsi_cos(double x) LSI_PURE;   /* below 0.85 */
void lsi_sincos(double x, double *sine, double *cosine); /* both */

/* x to the power of y: error below 0.53, and 0.76 below 2^-1022. */
double lsi_pow(double x, double y) LSI_PURE;

/* The same in f32: error below 0.501. */
float lsi_powf(float x, float y) LSI_PURE;

/*
 * The share of the normal distribution below a, (1 + erf(a / sqrt 2)) / 2, and
 * its density at a. Relative errors are below 2^-37, also where a is far below
 * 0, for an a of f32.
 */
double lsi_normal_share(double a, double *density);

#endif
