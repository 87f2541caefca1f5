/*
 * Each distinct product, or batch of them, is one matmul primitive. Transposes
 * and leading dimensions are strides, the bias is an argument, accumulation a
 * post operation. A batch has more dimensions, and an operand that is repeated
 * along one of them has an extent of 1 there.
 *
 * A matrix B whose rows are a multiple of 4 KiB apart is first copied to the
 * layout that oneDNN likes best. Read in place, all its rows would share a few
 * sets of the first-level cache, which halves the speed.
 */
#include "array/compute/onednn/gemm.h"

#include <stddef.h>
#include <string.h>

#include "array/compute/onednn/calls.h"
#include "array/compute/onednn/op.h"
#include "array/compute/plan_cache.h"
#include "array/compute/threads.h"
#include "base/error.h"
#include "base/memory.h"

/* No padding: its bytes are compared, of a single product those before batch.
 */
typedef struct gemm_key {
    int64_t m, n, k, lda, ldb, ldc;
    int32_t a_transposed, b_transposed, accumulate, bias;
    int32_t ab_dtype, c_dtype, threads, unused;
    lsi_gemm_batch batch; /* of no dimensions for a single product */
} gemm_key;

static gemm_key key_of(const lsi_gemm_shape *g)
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
                      .ab_dtype = (int32_t)g->ab_dtype,
                      .c_dtype = (int32_t)g->c_dtype,
                      .threads = lsi_threads()};
}

static const char *name_of(const gemm_key *k)
{
    return k->batch.ndim > 0 ? "create a batch of matrix products"
                             : "create a matrix product";
}

/* The last two dimensions of an array. */
typedef struct matrix {
    int64_t rows, cols, ld;
    int32_t transposed;
    int32_t dtype;
} matrix;

static dnnl_status_t describe(dnnl_memory_desc_t *out, const gemm_key *key,
                              const int64_t *batch_strides, matrix x)
{
    dnnl_dims_t dims, strides;
    const int n = (int)key->batch.ndim;
    for (int d = 0; d < n; d++) {
        const bool repeated = batch_strides[d] == 0;
        dims[d] = repeated ? 1 : key->batch.extent[d];
        strides[d] = repeated ? 1 : batch_strides[d];
    }
    dims[n] = x.rows;
    dims[n + 1] = x.cols;
    strides[n] = x.transposed ? 1 : x.ld;
    strides[n + 1] = x.transposed ? x.ld : 1;
    return dnnl_memory_desc_init_by_strides(
        out, n + 2, dims, lsi_onednn_dtype((ls_dtype)x.dtype), strides);
}

/* Few rows of C would not pay for the copy. */
static bool is_crowded(const gemm_key *k)
{
    const int64_t set_bytes = 4096, least = 64;
    return k->batch.ndim == 0 && k->ab_dtype == LS_F32 && !k->b_transposed &&
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
    return describe(out, k, k->batch.b,
                    (matrix){k->k, k->n, k->ldb, k->b_transposed, k->ab_dtype});
}

static dnnl_status_t describe_all(dnnl_matmul_desc_t *out, const gemm_key *k)
{
    const dnnl_dims_t bias_dims = {1, k->n};
    dnnl_memory_desc_t a, b, c, bias;
    dnnl_status_t status =
        describe(&a, k, k->batch.a,
                 (matrix){k->m, k->k, k->lda, k->a_transposed, k->ab_dtype});
    if (status == dnnl_success)
        status = describe_b(&b, k);
    if (status == dnnl_success)
        status = describe(&c, k, k->batch.c,
                          (matrix){k->m, k->n, k->ldc, 0, k->c_dtype});
    if (status == dnnl_success)
        status = dnnl_memory_desc_init_by_tag(&bias, 2, bias_dims, dnnl_f32,
                                              dnnl_ab);
    if (status == dnnl_success)
        status = dnnl_matmul_desc_init(out, &a, &b, k->bias ? &bias : NULL, &c);
    return status;
}

static ls_status make_copy(gemm_plan *plan, const gemm_key *key,
                           const dnnl_memory_desc_t *wanted)
{
    dnnl_memory_desc_t plain;
    LS_TRY(lsi_onednn_check(
        describe(&plain, key, key->batch.b,
                 (matrix){key->k, key->n, key->ldb, 0, key->ab_dtype}),
        name_of(key)));
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
    LS_TRY(lsi_onednn_check(describe_all(&matmul, key), name_of(key)));
    LS_TRY(lsi_onednn_attr(&attr, key->accumulate, false));
    const dnnl_status_t status =
        lsi_dnnl_primitive_desc_create(&desc, &matmul, attr, engine, NULL);
    dnnl_primitive_attr_destroy(attr);
    if (status == dnnl_unimplemented) /* bf16 below AVX-512, or a batch */
        return LS_OK;
    LS_TRY(lsi_onednn_check(status, name_of(key)));
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

static const char single_name[] = "plan of a matrix product";
static const char batch_name[] = "plan of a batch of matrix products";

static ls_status make_plan(const void *key, void **plan)
{
    const gemm_key *const k = key;
    lsi_onednn_thread *thread; /* checks for memory for threads, too */
    LS_TRY(lsi_onednn_thread_get(&thread));
    void *block;
    LS_TRY(lsi_alloc_zeroed(&block, sizeof(gemm_plan), LS_MEMORY_OTHER,
                            k->batch.ndim > 0 ? batch_name : single_name));
    const ls_status status = fill_plan(block, k);
    if (status == LS_OK)
        *plan = block;
    else
        free_plan(block);
    return status;
}

static ls_status make_single(const void *key, void **plan)
{
    gemm_key whole = {0};
    memcpy(&whole, key, offsetof(gemm_key, batch));
    return make_plan(&whole, plan);
}

static const lsi_plan_kind single_kind = {
    .name = single_name,
    .key_bytes = offsetof(gemm_key, batch),
    .make = make_single,
    .destroy = free_plan,
    .limited = true,
    .hidden_bytes = lsi_onednn_plan_bytes};

static const lsi_plan_kind batch_kind = {.name = batch_name,
                                         .key_bytes = sizeof(gemm_key),
                                         .make = make_plan,
                                         .destroy = free_plan,
                                         .limited = true,
                                         .hidden_bytes = lsi_onednn_plan_bytes};

/* `pointers` are C, A, B and the bias. */
static ls_status run_plan(gemm_plan *p, void *const *pointers)
{
    const size_t multiply = p->product.scratch_bytes;
    const size_t copy_b = p->copy_b.scratch_bytes;
    const size_t larger = multiply > copy_b ? multiply : copy_b;
    char *scratch;
    LS_TRY(lsi_onednn_reserve(p->copy_bytes + larger, &scratch));
    char *rest = scratch + p->copy_bytes;
    if (p->copy_b.primitive == NULL)
        return lsi_onednn_op_run(&p->product, rest, pointers);
    void *const copy[] = {pointers[2], scratch};
    LS_TRY(lsi_onednn_op_run(&p->copy_b, rest, copy));
    void *const copied[] = {pointers[0], pointers[1], scratch, pointers[3]};
    return lsi_onednn_op_run(&p->product, rest, copied);
}

static ls_status run_product(const lsi_plan_kind *kind, const gemm_key *key,
                             void *const *pointers, bool *done)
{
    void *plan;
    *done = false;
    if (key->ab_dtype == LS_F16)
        return LS_OK;
    LS_TRY(lsi_plan_cache_get(kind, key, &plan));
    gemm_plan *p = plan;
    *done = p->product.primitive != NULL;
    const ls_status status = *done ? run_plan(p, pointers) : LS_OK;
    lsi_plan_cache_done();
    return status;
}

ls_status lsi_onednn_gemm(const lsi_gemm_shape *shape, void *c, const void *a,
                          const void *b, const float *bias_or_null, bool *done)
{
    gemm_key key = key_of(shape);
    void *const pointers[] = {c, lsi_onednn_input(a), lsi_onednn_input(b),
                              lsi_onednn_input(bias_or_null)};
    key.bias = bias_or_null != NULL;
    return run_product(&single_kind, &key, pointers, done);
}

ls_status lsi_onednn_gemm_batch(const lsi_gemm_shape *shape,
                                const lsi_gemm_batch *batch, void *c,
                                const void *a, const void *b, bool *done)
{
    gemm_key key = key_of(shape);
    void *const pointers[] = {c, lsi_onednn_input(a), lsi_onednn_input(b),
                              NULL};
    key.batch = *batch;
    return run_product(&batch_kind, &key, pointers, done);
}
