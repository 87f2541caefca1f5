/*
 * Attention that stores the scores: three matrix products, a softmax, and
 * memory for queries x keys of every head between forward and backward.
 */
#include "array/compute/attention/attention.h"
#include "observe/spans.h"

#include <string.h>

#include "array/compute/dense.h"
#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "base/error.h"
#include "base/memory.h"

/* One query head of the problem. */
typedef struct naive_head {
    const lsi_attention *a;
    const lsi_flash_ops *ops;
    size_t batch, head, kv;
    size_t keys; /* that exist in this batch */
    size_t ld;   /* of a row of scores: a->keys, but at least 1 */
    float *l;    /* [queries] */
    float *p;    /* [queries][a->keys] */
    float *dp;   /* as p; backward only */
    void *half;  /* as p in bf16; NULL for f32 */
} naive_head;

static naive_head head_of(const lsi_attention *a, const float *saved, size_t n)
{
    const size_t heads = a->batch * a->heads;
    float *l = (float *)(uintptr_t)saved;
    return (naive_head){.a = a,
                        .ops = lsi_kernels_get()->flash[a->half],
                        .batch = n / a->heads,
                        .head = n % a->heads,
                        .kv = n % a->heads / a->group,
                        .keys = lsi_attention_keys(a, n / a->heads),
                        .ld = a->keys == 0 ? 1 : a->keys,
                        .l = l + n * a->queries,
                        .p = l + heads * a->queries + n * a->queries * a->keys};
}

static lsi_flash_rows query_rows(const naive_head *h, const void *q)
{
    return lsi_attention_rows(h->a, q, h->a->q_strides, h->batch, h->head, 0);
}

static lsi_flash_rows output_rows(const naive_head *h, const void *o)
{
    return lsi_attention_rows(h->a, o, h->a->o_strides, h->batch, h->head, 0);
}

static lsi_flash_rows key_rows(const naive_head *h, const void *k)
{
    return lsi_attention_rows(h->a, k, h->a->kv_strides, h->batch, h->kv, 0);
}

/* A queries x keys matrix as an operand: f32, or rounded to bf16. */
static lsi_flash_rows scores_operand(const naive_head *h, const float *scores)
{
    const size_t n = h->a->queries * h->a->keys;
    if (h->half == NULL)
        return (lsi_flash_rows){scores, h->ld};
    lsi_kernels_get()->convert(h->half, LS_BF16, scores, LS_F32, n);
    return (lsi_flash_rows){h->half, h->ld};
}

typedef struct naive_product {
    void *c;
    size_t ldc;
    ls_dtype c_dtype;
    lsi_flash_rows a, b;
    size_t m, n, k;
    bool a_transposed, b_transposed, accumulate;
} naive_product;

static ls_status run_product(const naive_head *h, naive_product p)
{
    const lsi_gemm_shape gemm = {.m = (int64_t)p.m,
                                 .n = (int64_t)p.n,
                                 .k = (int64_t)p.k,
                                 .lda = (int64_t)p.a.ld,
                                 .ldb = (int64_t)p.b.ld,
                                 .ldc = (int64_t)p.ldc,
                                 .a_transposed = p.a_transposed,
                                 .b_transposed = p.b_transposed,
                                 .accumulate = p.accumulate,
                                 .ab_dtype = h->a->half ? LS_BF16 : LS_F32,
                                 .c_dtype = p.c_dtype};
    return lsi_gemm_run(&gemm, p.c, p.a.data, p.b.data, NULL);
}

/* to (queries, keys) = x (queries, d) y (keys, d)^T */
static ls_status scores_of(const naive_head *h, float *to, lsi_flash_rows x,
                           lsi_flash_rows y)
{
    LSI_SPAN(OPERATION, "attention scores", 0, 0);
    return run_product(h, (naive_product){.c = to,
                                          .ldc = h->ld,
                                          .c_dtype = LS_F32,
                                          .a = x,
                                          .b = y,
                                          .m = h->a->queries,
                                          .n = h->keys,
                                          .k = h->a->d,
                                          .b_transposed = true});
}

/* to (queries, d) = scores (queries, keys) y (keys, d), in the user's type */
static ls_status weigh(const naive_head *h, lsi_flash_rows to,
                       lsi_flash_rows scores, lsi_flash_rows y)
{
    LSI_SPAN(OPERATION, "attention values", 0, 0);
    return run_product(h,
                       (naive_product){.c = (void *)(uintptr_t)to.data,
                                       .ldc = to.ld,
                                       .c_dtype = h->a->half ? LS_BF16 : LS_F32,
                                       .a = scores,
                                       .b = y,
                                       .m = h->a->queries,
                                       .n = h->a->d,
                                       .k = h->keys});
}

/* to (keys, d), f32, += scores (queries, keys)^T x (queries, d) */
static ls_status gather(const naive_head *h, float *to, lsi_flash_rows scores,
                        lsi_flash_rows x)
{
    LSI_SPAN(OPERATION, "attention gradients", 0, 0);
    return run_product(h, (naive_product){.c = to,
                                          .ldc = h->a->d,
                                          .c_dtype = LS_F32,
                                          .a = scores,
                                          .b = x,
                                          .m = h->keys,
                                          .n = h->a->d,
                                          .k = h->a->queries,
                                          .a_transposed = true,
                                          .accumulate = true});
}

/* Keys that query `row` sees: the first of them, always a prefix. */
static size_t seen(const naive_head *h, size_t row)
{
    return h->a->causal && row + 1 < h->keys ? row + 1 : h->keys;
}

static void softmax_rows(void *context, size_t begin, size_t end)
{
    const naive_head *h = context;
    for (size_t row = begin; row < end; row++) {
        float *p = h->p + row * h->a->keys;
        const size_t n = seen(h, row);
        h->l[row] =
            n == 0 ? LSI_FLASH_NO_KEYS : h->ops->softmax_row(p, n, h->a->scale);
        memset(p + n, 0, (h->a->keys - n) * sizeof(float));
    }
}

static void backward_rows(void *context, size_t begin, size_t end)
{
    const naive_head *h = context;
    for (size_t row = begin; row < end; row++) {
        float *dp = h->dp + row * h->a->keys;
        const size_t n = seen(h, row);
        h->ops->softmax_backward_row(dp, h->p + row * h->a->keys, n,
                                     h->a->scale);
        memset(dp + n, 0, (h->a->keys - n) * sizeof(float));
    }
}

/* Keys that all queries see together. */
static uint64_t pairs(const naive_head *h)
{
    return (uint64_t)h->a->queries * h->keys / (h->a->causal ? 2 : 1);
}

static void softmax_of(naive_head *h)
{
    LSI_SPAN(KERNEL, "attention_softmax", 8 * pairs(h), 5 * pairs(h));
    lsi_parallel_for(h->a->queries, 16, softmax_rows, h);
}

static void softmax_backward_of(naive_head *h)
{
    LSI_SPAN(KERNEL, "attention_softmax_backward", 12 * pairs(h), 4 * pairs(h));
    lsi_parallel_for(h->a->queries, 16, backward_rows, h);
}

static ls_status forward_head(const naive_head *h, void *o,
                              lsi_attention_inputs in)
{
    naive_head copy = *h;
    LS_TRY(scores_of(h, h->p, query_rows(h, in.q), key_rows(h, in.k)));
    softmax_of(&copy);
    return weigh(h, output_rows(h, o), scores_operand(h, h->p),
                 key_rows(h, in.v));
}

ls_status lsi_naive_forward_all(const lsi_attention *a, void *o, float *saved,
                                lsi_attention_inputs in)
{
    const size_t elements = a->half ? a->queries * a->keys : 0;
    void *half;
    LS_TRY(lsi_alloc(&half, elements * sizeof(uint16_t), LS_MEMORY_WORKSPACE,
                     "naive attention forward workspace"));
    ls_status status = LS_OK;
    for (size_t n = 0; n < a->batch * a->heads && status == LS_OK; n++) {
        naive_head h = head_of(a, saved, n);
        h.half = a->half ? half : NULL;
        status = forward_head(&h, o, in);
    }
    lsi_free(half);
    return status;
}

/* Sums of one key head, in f32, before they go to dk and dv. */
typedef struct key_sums {
    float *dk, *dv; /* (keys, d) */
} key_sums;

static ls_status backward_head(naive_head *h, lsi_attention_inputs in,
                               lsi_attention_gradients g, key_sums sums)
{
    const lsi_flash_rows dout = output_rows(h, g.dout);
    LS_TRY(gather(h, sums.dv, scores_operand(h, h->p), dout));
    LS_TRY(scores_of(h, h->dp, dout, key_rows(h, in.v)));
    softmax_backward_of(h);
    const lsi_flash_rows ds = scores_operand(h, h->dp);
    LS_TRY(gather(h, sums.dk, ds, query_rows(h, in.q)));
    return weigh(h, query_rows(h, g.dq), ds, key_rows(h, in.k));
}

static void store_keys(const naive_head *h, void *to, const float *from)
{
    const lsi_flash_rows rows = key_rows(h, to);
    const size_t bytes = h->a->half ? sizeof(uint16_t) : sizeof(float);
    for (size_t key = 0; key < h->a->keys; key++)
        lsi_kernels_get()->convert((char *)(uintptr_t)rows.data +
                                       key * rows.ld * bytes,
                                   h->a->half ? LS_BF16 : LS_F32,
                                   from + key * h->a->d, LS_F32, h->a->d);
}

static ls_status backward_all(const lsi_attention *a, lsi_attention_inputs in,
                              lsi_attention_gradients g, float *memory)
{
    const size_t scores = a->queries * a->keys, size = a->keys * a->d;
    const key_sums sums = {memory + scores, memory + scores + size};
    void *half = memory + scores + 2 * size;
    for (size_t n = 0; n < a->batch * a->heads; n++) {
        naive_head h = head_of(a, g.saved, n);
        h.dp = memory;
        h.half = a->half ? half : NULL;
        if (n % a->group == 0)
            memset(sums.dk, 0, 2 * size * sizeof(float));
        LS_TRY(backward_head(&h, in, g, sums));
        if (n % a->group == a->group - 1) {
            store_keys(&h, g.dk, sums.dk);
            store_keys(&h, g.dv, sums.dv);
        }
    }
    return LS_OK;
}

size_t lsi_naive_backward_bytes(const lsi_attention *a)
{
    const size_t scores = a->queries * a->keys;
    const size_t rounded = a->half ? (scores + 1) / 2 : 0;
    return (scores + 2 * a->keys * a->d + rounded) * sizeof(float);
}

ls_status lsi_naive_backward_all(const lsi_attention *a,
                                 lsi_attention_inputs in,
                                 lsi_attention_gradients g)
{
    void *memory;
    LS_TRY(lsi_alloc(&memory, lsi_naive_backward_bytes(a), LS_MEMORY_WORKSPACE,
                     "naive attention backward workspace"));
    const ls_status status = backward_all(a, in, g, memory);
    lsi_free(memory);
    return status;
}
