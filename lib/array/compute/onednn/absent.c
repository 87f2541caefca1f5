/* In place of oneDNN, in a build without it: the plain loops. */
#include "array/compute/dense.h"
#include "array/compute/onednn/conv2d.h"
#include "array/compute/onednn/gemm.h"
#include "array/compute/onednn/scratch.h"
#include "array/compute/panel_gemm.h"
#include "array/compute/plan_cache.h"
#include "array/compute/winograd.h"
#include "array/kernels/ref/dense.h"
#include "base/error.h"

void lsi_dense_init(void)
{
}

const char *lsi_dense_version(void)
{
    return "none";
}

ls_status lsi_onednn_gemm(const lsi_gemm_shape *shape, void *c, const void *a,
                          const void *b, const float *bias_or_null, bool *done)
{
    (void)shape, (void)c, (void)a, (void)b, (void)bias_or_null;
    *done = false;
    return LS_OK;
}

ls_status lsi_onednn_gemm_batch(const lsi_gemm_shape *shape,
                                const lsi_gemm_batch *batch, void *c,
                                const void *a, const void *b, bool *done)
{
    (void)shape, (void)batch, (void)c, (void)a, (void)b;
    *done = false;
    return LS_OK;
}

ls_status lsi_conv2d_is_fast(const lsi_conv2d_shape *shape, bool *fast)
{
    (void)shape;
    *fast = false;
    return LS_OK;
}

ls_status lsi_onednn_conv2d_new(lsi_onednn_conv2d **out,
                                const lsi_conv2d_shape *shape)
{
    (void)shape;
    *out = NULL;
    return LS_OK;
}

/* Panels are multiplied in the scratch memory of oneDNN. */
bool lsi_panel_gemm_suits(const lsi_gemm_shape *shape)
{
    (void)shape;
    return false;
}

/* So are images. */
const lsi_winograd_passes *lsi_winograd_bf16(const lsi_conv2d_shape *shape,
                                             lsi_layout src, lsi_layout dst)
{
    (void)shape, (void)src, (void)dst;
    return NULL;
}

/* Scratch memory is the workspace of the thread. */
ls_status lsi_onednn_reserve(size_t bytes, char **out)
{
    static const lsi_plan_kind kind = LSI_WORKSPACE_KIND("scratch memory");
    void *memory;
    LS_TRY(lsi_workspace_get(&kind, bytes, "scratch memory", &memory));
    *out = memory;
    return LS_OK;
}

/* ---- never called, for there is no convolution to call them with ----------
 */

void lsi_onednn_conv2d_free(lsi_onednn_conv2d *conv)
{
    (void)conv;
}

lsi_conv2d_layouts lsi_onednn_conv2d_layouts(const lsi_onednn_conv2d *conv)
{
    (void)conv;
    return (lsi_conv2d_layouts){LSI_LAYOUT_PLAIN, LSI_LAYOUT_PLAIN};
}

static ls_status absent(void)
{
    return lsi_fail(LS_ERR_UNSUPPORTED,
                    "this library was built without oneDNN");
}

ls_status lsi_panel_gemm(const lsi_gemm_shape *shape, float *c, const float *a,
                         const float *b, const float *bias_or_null)
{
    (void)shape, (void)c, (void)a, (void)b, (void)bias_or_null;
    return absent();
}

ls_status lsi_onednn_conv2d_forward(lsi_onednn_conv2d *conv, void *dst,
                                    const void *src, const void *weight,
                                    const float *bias_or_null)
{
    (void)conv, (void)dst, (void)src, (void)weight, (void)bias_or_null;
    return absent();
}

ls_status lsi_onednn_conv2d_backward_data(lsi_onednn_conv2d *conv, void *dsrc,
                                          const void *ddst, const void *weight)
{
    (void)conv, (void)dsrc, (void)ddst, (void)weight;
    return absent();
}

ls_status lsi_onednn_conv2d_backward_weight(lsi_onednn_conv2d *conv,
                                            float *dweight,
                                            float *dbias_or_null,
                                            const void *src, const void *ddst,
                                            bool accumulate)
{
    (void)conv, (void)dweight, (void)dbias_or_null, (void)src, (void)ddst;
    (void)accumulate;
    return absent();
}
