/* Matrix products: checks, and the choice of the implementation. */
#include "array/compute/onednn/gemm.h"
#include "array/compute/dense.h"
#include "array/compute/half_gemm.h"
#include "array/compute/panel_gemm.h"
#include "array/compute/portable_gemm.h"
#include "array/compute/work.h"
#include "array/kernels/kernels.h"
#include "array/kernels/ref/dense.h"
#include "base/error.h"

static ls_status check_types(const lsi_gemm_shape *g)
{
    const bool known = g->ab_dtype == LS_F32 || g->ab_dtype == LS_BF16 ||
                       g->ab_dtype == LS_F16;
    if (known && (g->c_dtype == LS_F32 || g->c_dtype == g->ab_dtype))
        return LS_OK;
    return lsi_fail(LS_ERR_DTYPE,
                    "matrix product: the inputs have dtype %s and the output "
                    "%s. The inputs must be f32, bf16 or f16, and the output "
                    "must have the same dtype or f32",
                    ls_dtype_name(g->ab_dtype), ls_dtype_name(g->c_dtype));
}

/* `columns` of the array as stored in memory. */
static ls_status check_leading(const char *name, int64_t leading,
                               int64_t columns)
{
    if (leading >= columns && leading >= 1)
        return LS_OK;
    return lsi_fail(
        LS_ERR_ARGUMENT,
        "matrix product: the leading dimension of %s is %lld elements; it must "
        "be at least 1 and at least the row length, %lld",
        name, (long long)leading, (long long)columns);
}

static ls_status check(const lsi_gemm_shape *g)
{
    if (g->m < 0 || g->n < 0 || g->k < 0)
        return lsi_fail(LS_ERR_SHAPE,
                        "matrix product: m is %lld, n %lld and k %lld; none "
                        "may be negative",
                        (long long)g->m, (long long)g->n, (long long)g->k);
    LS_TRY(check_types(g));
    LS_TRY(check_leading("A", g->lda, g->a_transposed ? g->m : g->k));
    LS_TRY(check_leading("B", g->ldb, g->b_transposed ? g->k : g->n));
    return check_leading("C", g->ldc, g->n);
}

static ls_status run_gemm(const lsi_gemm_shape *shape, void *c, const void *a,
                          const void *b, const float *bias_or_null)
{
    const bool by_loops =
        shape->k == 0 || lsi_kernels_get()->isa == LSI_ISA_REF;
    const lsi_gemm_batch alone = {.ndim = 0};
    bool done = false;
    if (lsi_portable_gemm_suits(shape))
        return lsi_portable_gemm(shape, &alone, c, a, b, bias_or_null);
    if (lsi_panel_gemm_suits(shape))
        return lsi_panel_gemm(shape, c, a, b, bias_or_null);
    if (!by_loops)
        LS_TRY(lsi_onednn_gemm(shape, c, a, b, bias_or_null, &done));
    if (done)
        return LS_OK;
    if (!by_loops && shape->ab_dtype != LS_F32)
        return lsi_half_gemm(shape, c, a, b, bias_or_null, run_gemm);
    lsi_ref_gemm(shape, c, a, b, bias_or_null);
    return LS_OK;
}

ls_status lsi_gemm_run(const lsi_gemm_shape *shape, void *c, const void *a,
                       const void *b, const float *bias_or_null)
{
    LSI_SPAN(KERNEL, lsi_work_gemm_name(shape), lsi_work_gemm_bytes(shape, 1),
             lsi_work_gemm(shape, 1));
    LS_TRY(check(shape));
    return shape->m == 0 || shape->n == 0
               ? LS_OK
               : run_gemm(shape, c, a, b, bias_or_null);
}
