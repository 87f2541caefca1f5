#include "train/models/builder.h"

#include "comm/core/agree.h"

/* Where ranks wait for each other, one that has failed says so. */
static bool all_well(lsi_net_builder *b)
{
    if (!b->agreed) {
        b->status = lsi_agree_to_plan(b->group, b->status);
        b->agreed = b->status != LS_OK;
    }
    return b->status == LS_OK;
}

ls_status lsi_build_end(lsi_net_builder *b)
{
    (void)all_well(b);
    return b->status;
}

void lsi_build_norm(lsi_net_builder *b, lsi_norm_part *part, const char *name,
                    int64_t features, bool affine)
{
    if (b->norm == LSI_NORM_LOCAL) {
        LSI_BUILD(b, ls_batch_norm_layer_init(&part->local, b->params, name,
                                              features, affine));
        return;
    }
    const ls_sync_bn_options options = {.kind = b->norm == LSI_NORM_FUSED
                                                    ? LS_SYNC_BN_FUSED
                                                    : LS_SYNC_BN_GATHERED,
                                        .affine = affine};
    if (!all_well(b))
        return;
    b->status = lsi_agree_to_plan(
        b->group, ls_sync_bn_new(&part->sync, b->group, b->params, name,
                                 features, options));
    b->agreed = b->status != LS_OK;
}

void lsi_norm_part_free(lsi_norm_part *part)
{
    ls_sync_bn_free(&part->sync);
}

/* A synchronised normalisation of images, whose channels become columns. */
static ls_tensor *sync_images(ls_sync_bn *bn, ls_tape *tape, ls_tensor *x)
{
    const int64_t c = ls_tensor_shape(x)[1];
    x = ls_transpose(tape, ls_transpose(tape, x, 1, 2), 2, 3);
    if (x == NULL)
        return ls_sync_bn_forward(bn, tape, NULL); /* tells the others */
    ls_tensor *rows = ls_reshape(tape, x, 2, (const int64_t[]){-1, c});
    rows = ls_reshape(tape, ls_sync_bn_forward(bn, tape, rows), 4,
                      ls_tensor_shape(x));
    return ls_transpose(tape, ls_transpose(tape, rows, 2, 3), 1, 2);
}

ls_tensor *lsi_norm_part_forward(const lsi_norm_part *part, ls_tape *tape,
                                 ls_tensor *x)
{
    if (part->sync == NULL)
        return ls_batch_norm_layer_forward(&part->local, tape, x);
    return x != NULL && ls_tensor_ndim(x) == 4
               ? sync_images(part->sync, tape, x)
               : ls_sync_bn_forward(part->sync, tape, x);
}

ls_tensor *lsi_norm_part_relu(const lsi_norm_part *part, ls_tape *tape,
                              ls_tensor *x, ls_tensor *residual)
{
    if (part->sync != NULL) {
        x = lsi_norm_part_forward(part, tape, x);
        return ls_relu(tape, residual != NULL ? ls_add(tape, x, residual) : x);
    }
    ls_batch_norm_args args = part->local.args;
    args.relu = true;
    args.residual = residual;
    return ls_batch_norm(tape, x, &args);
}
