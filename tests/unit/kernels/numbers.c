/*
 * Rounding to the half types is written out here, apart from base/half.c: find
 * the distance between neighbours, divide, round to an integer.
 */
#include "numbers.h"

#include <math.h>
#include <string.h>

typedef struct format {
    int digits, min_exponent, max_exponent; /* as in <float.h>, base 2 */
} format;

static const format f16_format = {11, -14, 15};
static const format bf16_format = {8, -126, 127};

bool is_float(ls_dtype dtype)
{
    return dtype == LS_F32 || dtype == LS_F64 || dtype == LS_F16 ||
           dtype == LS_BF16;
}

int significand_bits(ls_dtype dtype)
{
    switch (dtype) {
    case LS_F64:
        return 53;
    case LS_F32:
        return 24;
    case LS_F16:
        return 11;
    default:
        return 8;
    }
}

/* From sign, exponent and significand fields. */
/* Exact in double. */
static double decode(unsigned bits, format f)
{
    const int fraction_bits = f.digits - 1;
    const unsigned sign = bits >> 15;
    const unsigned fraction = bits & ((1U << fraction_bits) - 1);
    const int exponent = (int)((bits & 0x7FFFU) >> fraction_bits);
    double value;
    if (exponent == f.max_exponent * 2 + 1)
        value = fraction ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        value = ldexp(fraction, f.min_exponent - fraction_bits);
    else
        value = ldexp(fraction + (1U << fraction_bits),
                      exponent - f.max_exponent - fraction_bits);
    return sign ? -value : value;
}

static unsigned encode(long double value, format f)
{
    const int fraction_bits = f.digits - 1;
    const unsigned sign = signbit(value) ? 0x8000U : 0;
    const unsigned infinite = (2U * (unsigned)f.max_exponent + 1)
                              << fraction_bits;
    const long double magnitude = fabsl(value);
    if (isnan(value))
        return sign | infinite | 1U << (fraction_bits - 1);
    if (isinf(value))
        return sign | infinite;
    int exponent = f.min_exponent;
    if (magnitude > 0 && ilogbl(magnitude) > exponent)
        exponent = ilogbl(magnitude);
    /* Counted in units of the distance between neighbours. */
    const long double units =
        rintl(ldexpl(magnitude, fraction_bits - exponent));
    const long double limit = ldexpl(1, f.max_exponent + 1);
    if (ldexpl(units, exponent - fraction_bits) >= limit)
        return sign | infinite;
    /* A carry into the next power of two adds one to the exponent field. */
    return sign | (((unsigned)(exponent - f.min_exponent) << fraction_bits) +
                   (unsigned)units);
}

long double get_number(const void *array, ls_dtype dtype, size_t i)
{
    switch (dtype) {
    case LS_F32:
        return ((const float *)array)[i];
    case LS_F64:
        return ((const double *)array)[i];
    case LS_F16:
        return decode(((const uint16_t *)array)[i], f16_format);
    case LS_BF16:
        return decode(((const uint16_t *)array)[i], bf16_format);
    case LS_I8:
        return ((const int8_t *)array)[i];
    case LS_U8:
        return ((const uint8_t *)array)[i];
    case LS_I32:
        return ((const int32_t *)array)[i];
    case LS_I64:
        return ((const int64_t *)array)[i];
    case LS_BOOL:
        return ((const uint8_t *)array)[i] != 0;
    }
    return 0;
}

static int64_t limited(long double value, int64_t low, int64_t high)
{
    if (isnan(value))
        return 0;
    if (value <= (long double)low)
        return low;
    return value >= (long double)high ? high : (int64_t)value;
}

void put_number(void *array, ls_dtype dtype, size_t i, long double value)
{
    switch (dtype) {
    case LS_F32:
        ((float *)array)[i] = (float)value;
        break;
    case LS_F64:
        ((double *)array)[i] = (double)value;
        break;
    case LS_F16:
        ((uint16_t *)array)[i] = (uint16_t)encode(value, f16_format);
        break;
    case LS_BF16:
        ((uint16_t *)array)[i] = (uint16_t)encode(value, bf16_format);
        break;
    case LS_I8:
        ((int8_t *)array)[i] = (int8_t)limited(value, INT8_MIN, INT8_MAX);
        break;
    case LS_U8:
        ((uint8_t *)array)[i] = (uint8_t)limited(value, 0, UINT8_MAX);
        break;
    case LS_I32:
        ((int32_t *)array)[i] = (int32_t)limited(value, INT32_MIN, INT32_MAX);
        break;
    case LS_I64:
        ((int64_t *)array)[i] = limited(value, INT64_MIN, INT64_MAX);
        break;
    case LS_BOOL: /* NaN is not 0 */
        ((uint8_t *)array)[i] = value != 0;
        break;
    }
}

/* x86 and ARM are little-endian: the low bytes come first. */
void put_wrapped(void *array, ls_dtype dtype, size_t i, int64_t value)
{
    const size_t size = ls_dtype_size(dtype);
    if (dtype == LS_BOOL)
        value = value != 0;
    memcpy((char *)array + i * size, &value, size);
}
