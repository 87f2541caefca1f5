/*
 * Each distinct product is one matmul primitive. Transposes and leading
 * dimensions are strides, the bias is an argument, accumulation a post
 * operation.
 *
 * A matrix B whose rows lie a multiple of 4 KiB apart is first copied to the
 * layout that oneDNN likes best. Read in place, all its rows would share a few
 * sets of the first-level cache, which halves the speed.
 */
#include "array/compute/onednn/gemm.h"

#include "array/compute/onednn/calls.h"
#include "array/compute/onednn/op.h"
#include "array/compute/plan_cache.h"
#include "array/compute/threads.h"
#include "base/error.h"
#include "base/memory.h"

/* No padding: its bytes are compared. */
typedef struct gemm_key {
    int64_t m, n, k, lda, ldb, ldc;
    int32_t a_transposed, b_transposed, accumulate, bias;
    int32_t ab_dtype, c_dtype, threads, unused;
} gemm_key;

static gemm_key key_of(const lsi_gemm_shape *g, bool bias)
{
    return (gemm_key){.m = g->m,
                      .n = g->n,
                      .k = g->k,
                      .lda = g->lda,
                      .ldb = g->ldb,
                      .ldc = g->ldc,
                      .a_transposed = g->a_transposed,
                      .b_transposed = g->b_transposed,
                      .accumulate = g->accumulate,
                      .bias = bias,
                      .ab_dtype = (int32_t)g->ab_dtype,
                      .c_dtype = (int32_t)g->c_dtype,
                      .threads = lsi_threads()};
}

static dnnl_status_t describe(dnnl_memory_desc_t *out, int64_t rows,
                              int64_t cols, int64_t leading, bool transposed,
                              dnnl_data_type_t type)
{
    const dnnl_dims_t dims = {rows, cols};
    const dnnl_dims_t strides = {transposed ? 1 : leading,
                                 transposed ? leading : 1};
    return dnnl_memory_desc_init_by_strides(out, 2, dims, type, strides);
}

/* Few rows of C would not pay for the copy. */
static bool is_crowded(const gemm_key *k)
{
    const int64_t set_bytes = 4096, least = 64;
    return k->ab_dtype == LS_F32 && !k->b_transposed &&
           k->ldb * (int64_t)sizeof(float) % set_bytes == 0 && k->m >= least &&
           k->n >= least && k->k >= least;
}

typedef struct gemm_plan {
    lsi_onednn_op product, copy_b; /* copy_b: only where B is copied */
    size_t copy_bytes;
} gemm_plan;

static dnnl_status_t describe_b(dnnl_memory_desc_t *out, const gemm_key *k)
{
    const dnnl_dims_t dims = {k->k, k->n};
    if (is_crowded(k))
        return dnnl_memory_desc_init_by_tag(out, 2, dims, dnnl_f32,
                                            dnnl_format_tag_any);
    return describe(out, k->k, k->n, k->ldb, k->b_transposed,
                    lsi_onednn_dtype(k->ab_dtype));
}

static dnnl_status_t describe_all(dnnl_matmul_desc_t *out, const gemm_key *k)
{
    const dnnl_data_type_t in = lsi_onednn_dtype(k->ab_dtype);
    dnnl_memory_desc_t a, b, c, bias;
    dnnl_status_t status =
        describe(&a, k->m, k->k, k->lda, k->a_transposed, in);
    if (status == dnnl_success)
        status = describe_b(&b, k);
    if (status == dnnl_success)
        status = describe(&c, k->m, k->n, k->ldc, false,
                          lsi_onednn_dtype(k->c_dtype));
    if (status == dnnl_success)
        status = describe(&bias, 1, k->n, k->n, false, dnnl_f32);
    if (status == dnnl_success)
        status = dnnl_matmul_desc_init(out, &a, &b, k->bias ? &bias : NULL, &c);
    return status;
}

static ls_status make_copy(gemm_plan *plan, const gemm_key *key,
                           const dnnl_memory_desc_t *wanted)
{
    dnnl_memory_desc_t plain;
    LS_TRY(lsi_onednn_check(describe(&plain, key->k, key->n, key->ldb, false,
                                     lsi_onednn_dtype(key->ab_dtype)),
                            "a matrix product"));
    const size_t bytes = dnnl_memory_desc_get_size(wanted);
    plan->copy_bytes = (bytes + 63) / 64 * 64;
    return lsi_onednn_op_reorder(&plan->copy_b, &plain, wanted, false);
}

static ls_status make_ops(gemm_plan *plan, const gemm_key *key,
                          dnnl_primitive_desc_t desc)
{
    static const int roles[] = {DNNL_ARG_DST, DNNL_ARG_SRC, DNNL_ARG_WEIGHTS,
                                DNNL_ARG_BIAS};
    LS_TRY(lsi_onednn_op_make(&plan->product, desc, roles, key->bias ? 4 : 3));
    return is_crowded(key) ? make_copy(plan, key,
                                       dnnl_primitive_desc_query_md(
                                           desc, dnnl_query_weights_md, 0))
                           : LS_OK;
}

static ls_status fill_plan(gemm_plan *plan, const gemm_key *key)
{
    dnnl_engine_t engine;
    dnnl_primitive_attr_t attr;
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_desc_t desc;
    LS_TRY(lsi_onednn_engine(&engine));
    LS_TRY(lsi_onednn_check(describe_all(&matmul, key), "a matrix product"));
    LS_TRY(lsi_onednn_attr(&attr, key->accumulate, false));
    const dnnl_status_t status =
        lsi_dnnl_primitive_desc_create(&desc, &matmul, attr, engine, NULL);
    dnnl_primitive_attr_destroy(attr);
    if (status == dnnl_unimplemented) /* bf16 below AVX-512 */
        return LS_OK;
    LS_TRY(lsi_onednn_check(status, "a matrix product"));
    const ls_status made = make_ops(plan, key, desc);
    dnnl_primitive_desc_destroy(desc);
    return made;
}

static void free_plan(void *plan)
{
    gemm_plan *p = plan;
    lsi_onednn_op_free(&p->product);
    lsi_onednn_op_free(&p->copy_b);
    lsi_free(plan);
}

static ls_status make_plan(const void *key, void **plan)
{
    lsi_onednn_thread *thread; /* asks for room for threads, too */
    LS_TRY(lsi_onednn_thread_get(&thread));
    void *block;
    LS_TRY(lsi_alloc_zeroed(&block, sizeof(gemm_plan), LS_MEMORY_OTHER,
                            "matrix product plan"));
    const ls_status status = fill_plan(block, key);
    if (status == LS_OK)
        *plan = block;
    else
        free_plan(block);
    return status;
}

static const lsi_plan_kind gemm_kind = {.name = "matrix product plan",
                                        .key_bytes = sizeof(gemm_key),
                                        .make = make_plan,
                                        .destroy = free_plan,
                                        .limited = true,
                                        .hidden_bytes = lsi_onednn_plan_bytes};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static ls_status run_plan(gemm_plan *p, void *c, const void *a, const void *b,
                          const float *bias_or_null)
{
    lsi_onednn_thread *thread;
    LS_TRY(lsi_onednn_reserve(p->copy_bytes + larger(p->product.scratch_bytes,
                                                     p->copy_b.scratch_bytes)));
    LS_TRY(lsi_onednn_thread_get(&thread));
    char *rest = thread->scratch + p->copy_bytes;
    if (p->copy_b.primitive != NULL) {
        void *const copy[] = {lsi_onednn_input(b), thread->scratch};
        LS_TRY(lsi_onednn_op_run(&p->copy_b, rest, copy));
        b = thread->scratch;
    }
    void *const pointers[] = {c, lsi_onednn_input(a), lsi_onednn_input(b),
                              lsi_onednn_input(bias_or_null)};
    return lsi_onednn_op_run(&p->product, rest, pointers);
}

ls_status lsi_onednn_gemm(const lsi_gemm_shape *shape, void *c, const void *a,
                          const void *b, const float *bias_or_null, bool *done)
{
    const gemm_key key = key_of(shape, bias_or_null != NULL);
    void *plan;
    *done = false;
    if (shape->ab_dtype == LS_F16)
        return LS_OK;
    LS_TRY(lsi_plan_cache_get(&gemm_kind, &key, &plan));
    gemm_plan *p = plan;
    *done = p->product.primitive != NULL;
    const ls_status status = *done ? run_plan(p, c, a, b, bias_or_null) : LS_OK;
    lsi_plan_cache_done();
    return status;
}
