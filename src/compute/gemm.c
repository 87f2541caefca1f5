/* Matrix products: checks, and the choice of who computes. */
#include "compute/onednn/gemm.h"
#include "base/error.h"
#include "compute/dense.h"
#include "compute/panel_gemm.h"
#include "kernels/kernels.h"
#include "kernels/ref/dense.h"

static ls_status check_types(const lsi_gemm_shape *g)
{
    const bool f32 = g->ab_dtype == LS_F32 && g->c_dtype == LS_F32;
    const bool bf16 = g->ab_dtype == LS_BF16 &&
                      (g->c_dtype == LS_F32 || g->c_dtype == LS_BF16);
    if (f32 || bf16)
        return LS_OK;
    return lsi_fail(LS_ERR_DTYPE,
                    "matrix product of %s into %s; f32 into f32, and bf16 into "
                    "f32 or bf16 are supported",
                    ls_dtype_name(g->ab_dtype), ls_dtype_name(g->c_dtype));
}

/* `columns` of the array as it lies in memory. */
static ls_status check_leading(const char *name, int64_t leading,
                               int64_t columns)
{
    if (leading >= columns && leading >= 1)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "matrix product: rows of %s are %lld elements apart, but "
                    "have %lld elements",
                    name, (long long)leading, (long long)columns);
}

static ls_status check(const lsi_gemm_shape *g)
{
    if (g->m < 0 || g->n < 0 || g->k < 0)
        return lsi_fail(LS_ERR_SHAPE,
                        "matrix product: negative extent in m %lld, n %lld, "
                        "k %lld",
                        (long long)g->m, (long long)g->n, (long long)g->k);
    LS_TRY(check_types(g));
    LS_TRY(check_leading("A", g->lda, g->a_transposed ? g->m : g->k));
    LS_TRY(check_leading("B", g->ldb, g->b_transposed ? g->k : g->n));
    return check_leading("C", g->ldc, g->n);
}

ls_status lsi_gemm_run(const lsi_gemm_shape *shape, void *c, const void *a,
                       const void *b, const float *bias_or_null)
{
    LS_TRY(check(shape));
    if (shape->m == 0 || shape->n == 0)
        return LS_OK;
    const lsi_kernels *k = lsi_kernels_get();
    if (lsi_panel_gemm_suits(shape))
        return lsi_panel_gemm(shape, c, a, b, bias_or_null);
    if (shape->k > 0 && k->isa > LSI_ISA_REF)
        return lsi_onednn_gemm(shape, c, a, b, bias_or_null);
    lsi_ref_gemm(shape, c, a, b, bias_or_null);
    return LS_OK;
}
