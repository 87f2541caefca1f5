/*
 * The functions of one instruction level, for both types: every one is the
 * template with its last argument fixed.
 */
#ifndef LS_ARRAY_KERNELS_ATTENTION_TILE_LEVEL_H
#define LS_ARRAY_KERNELS_ATTENTION_TILE_LEVEL_H

#include "array/kernels/attention/tile_backward.h"
#include "array/kernels/attention/tile_rows.h"

static void exp2_array(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        float part[LANES] = {0};
        const size_t bytes = smaller(n - i, LANES) * sizeof(float);
        memcpy(part, x + i, bytes);
        vf_store(part, vf_exp2(vf_load(part, LANES)), LANES);
        memcpy(y + i, part, bytes);
    }
}

#define LEVEL_FUNCTIONS(type, half)                                            \
    static void forward_##type(const lsi_flash_forward *task)                  \
    {                                                                          \
        forward(task, half);                                                   \
    }                                                                          \
    static size_t query_floats_##type(const lsi_flash_backward *shared)        \
    {                                                                          \
        return divide_queries(NULL, shared->d, shared->direct, half).total;    \
    }                                                                          \
    static size_t key_floats_##type(const lsi_flash_backward *shared)          \
    {                                                                          \
        return divide_keys(NULL, shared->d, shared->direct, half).total;       \
    }                                                                          \
    static size_t pair_workspace_##type(void)                                  \
    {                                                                          \
        return divide_pair(NULL, half).total;                                  \
    }                                                                          \
    static void start_queries_##type(const lsi_flash_backward *shared,         \
                                     const lsi_flash_query_block *q)           \
    {                                                                          \
        start_queries(q, shared, half);                                        \
    }                                                                          \
    static void start_keys_##type(const lsi_flash_backward *shared,            \
                                  const lsi_flash_key_block *k)                \
    {                                                                          \
        start_keys(k, shared, half);                                           \
    }                                                                          \
    static void pair_##type(const lsi_flash_backward *shared,                  \
                            const lsi_flash_query_block *q,                    \
                            const lsi_flash_key_block *k, float *workspace)    \
    {                                                                          \
        pass_pair(shared, q, k, workspace, half);                              \
    }                                                                          \
    static void store_##type(void *to, size_t ld, const float *from,           \
                             size_t width, size_t rows, size_t d)              \
    {                                                                          \
        for (size_t r = 0; r < rows; r++)                                      \
            store_row((char *)to + r * ld * element_bytes(half),               \
                      from + r * width, 1.0F, d, half);                        \
    }

LEVEL_FUNCTIONS(f32, false)
#ifndef F32_ONLY
LEVEL_FUNCTIONS(bf16, true)
#endif

#define OPS_OF(type)                                                           \
    {                                                                          \
        .lanes = LANES, .forward_workspace = forward_workspace,                \
        .forward = forward_##type, .query_floats = query_floats_##type,        \
        .key_floats = key_floats_##type,                                       \
        .pair_workspace = pair_workspace_##type,                               \
        .start_queries = start_queries_##type,                                 \
        .start_keys = start_keys_##type, .pair = pair_##type,                  \
        .store = store_##type, .softmax_row = softmax_row,                     \
        .softmax_backward_row = softmax_backward_row, .exp2 = exp2_array       \
    }

#define LEVEL_OPS                                                              \
    {                                                                          \
        OPS_OF(f32), OPS_OF(bf16)                                              \
    }

#endif
