#include "numbers.h"

#include "base/half.h"

void number_store(void *data, size_t i, ls_dtype dtype, double value)
{
    switch (dtype) {
    case LS_F32:
        ((float *)data)[i] = (float)value;
        break;
    case LS_F64:
        ((double *)data)[i] = value;
        break;
    case LS_F16:
        ((uint16_t *)data)[i] = lsi_f16_from_f32((float)value);
        break;
    case LS_BF16:
        ((uint16_t *)data)[i] = lsi_bf16_from_f32((float)value);
        break;
    case LS_I8:
        ((int8_t *)data)[i] = (int8_t)value;
        break;
    case LS_U8:
        ((uint8_t *)data)[i] = (uint8_t)value;
        break;
    case LS_I32:
        ((int32_t *)data)[i] = (int32_t)value;
        break;
    case LS_I64:
        ((int64_t *)data)[i] = (int64_t)value;
        break;
    case LS_BOOL:
        ((uint8_t *)data)[i] = value != 0;
        break;
    }
}

double number_load(const void *data, size_t i, ls_dtype dtype)
{
    switch (dtype) {
    case LS_F32:
        return (double)((const float *)data)[i];
    case LS_F64:
        return ((const double *)data)[i];
    case LS_F16:
        return (double)lsi_f16_to_f32(((const uint16_t *)data)[i]);
    case LS_BF16:
        return (double)lsi_bf16_to_f32(((const uint16_t *)data)[i]);
    case LS_I8:
        return ((const int8_t *)data)[i];
    case LS_U8:
        return ((const uint8_t *)data)[i];
    case LS_I32:
        return ((const int32_t *)data)[i];
    case LS_I64:
        return (double)((const int64_t *)data)[i];
    case LS_BOOL:
        return ((const uint8_t *)data)[i];
    }
    return 0;
}

bool is_float(ls_dtype dtype)
{
    return rounding_of(dtype) != 0;
}

double rounding_of(ls_dtype dtype)
{
    switch (dtype) {
    case LS_F32:
        return 0x1p-24;
    case LS_F64:
        return 0x1p-53;
    case LS_F16:
        return 0x1p-11;
    case LS_BF16:
        return 0x1p-8;
    default:
        return 0;
    }
}

double rounding_of_sums(ls_dtype dtype)
{
    return dtype == LS_F64 ? 0x1p-53 : is_float(dtype) ? 0x1p-24 : 0;
}

double reduce_truths(const double *values, int n, ls_reduce_op op)
{
    int trues = 0;
    for (int i = 0; i < n; i++)
        trues += values[i] != 0;
    if (op == LS_REDUCE_BXOR)
        return trues % 2;
    if (op == LS_REDUCE_MIN || op == LS_REDUCE_PROD || op == LS_REDUCE_BAND)
        return trues == n;
    return trues > 0;
}

double reduce_numbers(const double *values, int n, ls_reduce_op op)
{
    double result = values[0];
    for (int i = 1; i < n; i++) {
        if (op == LS_REDUCE_MIN)
            result = values[i] < result ? values[i] : result;
        else if (op == LS_REDUCE_MAX)
            result = values[i] > result ? values[i] : result;
        else if (op == LS_REDUCE_PROD)
            result *= values[i];
        else if (op == LS_REDUCE_BAND)
            result = (double)((int)result & (int)values[i]);
        else if (op == LS_REDUCE_BOR)
            result = (double)((int)result | (int)values[i]);
        else if (op == LS_REDUCE_BXOR)
            result = (double)((int)result ^ (int)values[i]);
        else
            result += values[i];
    }
    return op == LS_REDUCE_AVG ? result / n : result;
}
