/*
 * A batch of products is one matmul primitive with more dimensions: transposes
 * and leading dimensions are strides, and an operand that is repeated along a
 * dimension has an extent of 1 there.
 */
#include "array/compute/onednn/calls.h"
#include "array/compute/onednn/gemm.h"
#include "array/compute/onednn/op.h"
#include "array/compute/plan_cache.h"
#include "array/compute/threads.h"
#include "base/error.h"
#include "base/memory.h"

/* No padding: its bytes are compared. */
typedef struct batch_key {
    int64_t m, n, k, lda, ldb, ldc;
    lsi_gemm_batch batch;
    int32_t a_transposed, b_transposed, accumulate;
    int32_t ab_dtype, c_dtype, threads;
} batch_key;

static batch_key key_of(const lsi_gemm_shape *g, const lsi_gemm_batch *batch)
{
    return (batch_key){.m = g->m,
                       .n = g->n,
                       .k = g->k,
                       .lda = g->lda,
                       .ldb = g->ldb,
                       .ldc = g->ldc,
                       .batch = *batch,
                       .a_transposed = g->a_transposed,
                       .b_transposed = g->b_transposed,
                       .accumulate = g->accumulate,
                       .ab_dtype = (int32_t)g->ab_dtype,
                       .c_dtype = (int32_t)g->c_dtype,
                       .threads = lsi_threads()};
}

/* The last two dimensions of an array. */
typedef struct matrix {
    int64_t rows, cols, ld;
    int32_t transposed;
    int32_t dtype;
} matrix;

static dnnl_status_t describe(dnnl_memory_desc_t *out, const batch_key *key,
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

static dnnl_status_t describe_all(dnnl_matmul_desc_t *out, const batch_key *k)
{
    dnnl_memory_desc_t a, b, c;
    dnnl_status_t status =
        describe(&a, k, k->batch.a,
                 (matrix){k->m, k->k, k->lda, k->a_transposed, k->ab_dtype});
    if (status == dnnl_success)
        status = describe(
            &b, k, k->batch.b,
            (matrix){k->k, k->n, k->ldb, k->b_transposed, k->ab_dtype});
    if (status == dnnl_success)
        status = describe(&c, k, k->batch.c,
                          (matrix){k->m, k->n, k->ldc, 0, k->c_dtype});
    if (status == dnnl_success)
        status = dnnl_matmul_desc_init(out, &a, &b, NULL, &c);
    return status;
}

static ls_status fill_plan(lsi_onednn_op *plan, const batch_key *key)
{
    static const int roles[] = {DNNL_ARG_DST, DNNL_ARG_SRC, DNNL_ARG_WEIGHTS};
    dnnl_engine_t engine;
    dnnl_primitive_attr_t attr;
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_desc_t desc;
    LS_TRY(lsi_onednn_engine(&engine));
    LS_TRY(lsi_onednn_check(describe_all(&matmul, key), "matrix products"));
    LS_TRY(lsi_onednn_attr(&attr, key->accumulate, false));
    const dnnl_status_t status =
        lsi_dnnl_primitive_desc_create(&desc, &matmul, attr, engine, NULL);
    dnnl_primitive_attr_destroy(attr);
    if (status == dnnl_unimplemented) /* one by one, then */
        return LS_OK;
    LS_TRY(lsi_onednn_check(status, "matrix products"));
    const ls_status made = lsi_onednn_op_make(plan, desc, roles, 3);
    dnnl_primitive_desc_destroy(desc);
    return made;
}

static void free_plan(void *plan)
{
    lsi_onednn_op_free(plan);
    lsi_free(plan);
}

static ls_status make_plan(const void *key, void **plan)
{
    lsi_onednn_thread *thread; /* asks for room for threads, too */
    LS_TRY(lsi_onednn_thread_get(&thread));
    void *block;
    LS_TRY(lsi_alloc_zeroed(&block, sizeof(lsi_onednn_op), LS_MEMORY_OTHER,
                            "matrix products plan"));
    const ls_status status = fill_plan(block, key);
    if (status == LS_OK)
        *plan = block;
    else
        free_plan(block);
    return status;
}

static const lsi_plan_kind batch_kind = {.name = "matrix products plan",
                                         .key_bytes = sizeof(batch_key),
                                         .make = make_plan,
                                         .destroy = free_plan,
                                         .limited = true,
                                         .hidden_bytes = lsi_onednn_plan_bytes};

static ls_status run_plan(lsi_onednn_op *op, void *c, const void *a,
                          const void *b)
{
    lsi_onednn_thread *thread;
    LS_TRY(lsi_onednn_reserve(op->scratch_bytes));
    LS_TRY(lsi_onednn_thread_get(&thread));
    void *const pointers[] = {c, lsi_onednn_input(a), lsi_onednn_input(b)};
    return lsi_onednn_op_run(op, thread->scratch, pointers);
}

ls_status lsi_onednn_gemm_batch(const lsi_gemm_shape *shape,
                                const lsi_gemm_batch *batch, void *c,
                                const void *a, const void *b, bool *done)
{
    const batch_key key = key_of(shape, batch);
    void *plan;
    *done = false;
    if (shape->ab_dtype == LS_F16)
        return LS_OK;
    LS_TRY(lsi_plan_cache_get(&batch_kind, &key, &plan));
    lsi_onednn_op *op = plan;
    *done = op->primitive != NULL;
    const ls_status status = *done ? run_plan(op, c, a, b) : LS_OK;
    lsi_plan_cache_done();
    return status;
}
