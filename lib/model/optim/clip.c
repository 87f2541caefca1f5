/*
 * Clipping by the norm of all gradients. Their squares are summed block by
 * block, and the blocks in order, so the norm has the same bits for any
 * division of the blocks. A rank with a part of the gradients measures this
 * part, and the owner of the parameters adds up the sums of all ranks.
 */
#include <math.h>
#include <string.h>

#include "array/compute/array.h"
#include "base/error.h"
#include "base/memory.h"
#include "lockstep/optim.h"
#include "model/autograd/params.h"

struct ls_clip {
    ls_params *params;
    double max_norm;
    size_t n_blocks;
    double sums[];
};

ls_status ls_clip_new(ls_clip **out, ls_params *params, double max_norm)
{
    LS_NEED(out, params);
    const size_t count = params->storage.count;
    if (!params->storage.allocated)
        return lsi_fail(LS_ERR_STATE,
                        "ls_clip_new: the parameters are not allocated; call "
                        "ls_params_allocate first");
    if (!(max_norm > 0) || isinf(max_norm))
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "ls_clip_new: max_norm is %g; it must be positive and finite",
            max_norm);
    const size_t n = (count + LSI_SQUARES_BLOCK - 1) / LSI_SQUARES_BLOCK;
    ls_clip *clip;
    LS_TRY(lsi_alloc_zeroed(&clip, sizeof(ls_clip) + n * sizeof(double),
                            LS_MEMORY_OTHER, "the gradient norm"));
    clip->params = params;
    clip->max_norm = max_norm;
    clip->n_blocks = n;
    *out = clip;
    return LS_OK;
}

void ls_clip_free(ls_clip **clip)
{
    if (clip == NULL || *clip == NULL)
        return;
    lsi_free(*clip);
    *clip = NULL;
}

/* The range begins at a multiple of LSI_SQUARES_BLOCK. */
static void measure(ls_clip *clip, lsi_range range)
{
    lsi_array_squares(clip->sums + range.begin / LSI_SQUARES_BLOCK,
                      clip->params->storage.flat_grad + range.begin,
                      lsi_range_size(range));
}

static void scale(const ls_clip *clip, double *grad_scale, double *norm)
{
    double total = 0;
    for (size_t b = 0; b < clip->n_blocks; b++)
        total += clip->sums[b];
    const double size = sqrt(total) * fabs(*grad_scale);
    const double factor = clip->max_norm / (size + 1e-6);
    if (isfinite(size))
        *grad_scale *= factor < 1 ? factor : 1;
    *norm = size;
}

/* The norm of all gradients, including those of other ranks. */
static ls_status measure_all(ls_clip *clip)
{
    const lsi_params_owner *const owner = clip->params->sharing.owner;
    ls_params_finish_grad(clip->params);
    if (owner == NULL) {
        measure(clip, clip->params->storage.whole);
        return LS_OK;
    }
    memset(clip->sums, 0, clip->n_blocks * sizeof(double));
    measure(clip, owner->reduced);
    return owner->add_up(owner->context, clip->sums, clip->n_blocks);
}

ls_status ls_clip_grad(ls_clip *clip, double *grad_scale, double *norm,
                       bool *finite)
{
    LS_NEED(clip, grad_scale);
    double size;
    LS_TRY(measure_all(clip));
    scale(clip, grad_scale, &size);
    if (!isfinite(size) && finite == NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "clipping: the gradient norm is %g, because a gradient "
                        "or the gradient scale is infinite or NaN",
                        size);
    if (finite != NULL)
        *finite = isfinite(size);
    if (norm != NULL)
        *norm = size;
    return LS_OK;
}
