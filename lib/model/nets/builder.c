#include "model/nets/builder.h"

#include "comm/core/agree.h"

/* A rank that has failed reports it where ranks wait for each other. */
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
                    int64_t features, unsigned flags)
{
    const bool affine = flags & LSI_NORM_AFFINE, relu = flags & LSI_NORM_RELU;
    if (b->norm == LSI_NORM_LOCAL) {
        LSI_BUILD(b, ls_batch_norm_layer_init(
                         &part->local, b->params, name, features,
                         affine ? LS_LAYER_DEFAULT : LS_LAYER_NO_AFFINE));
        part->local.args.relu = relu;
        return;
    }
    ls_sync_bn_options options = LS_SYNC_BN_OPTIONS_INIT;
    options.kind =
        b->norm == LSI_NORM_FUSED ? LS_SYNC_BN_FUSED : LS_SYNC_BN_GATHERED;
    options.no_affine = !affine;
    options.relu = relu;
    if (!all_well(b))
        return;
    b->status = lsi_agree_to_plan(
        b->group, ls_sync_bn_new(&part->sync, b->group, b->params, name,
                                 features, &options));
    b->agreed = b->status != LS_OK;
}

void lsi_norm_part_free(lsi_norm_part *part)
{
    ls_sync_bn_free(&part->sync);
}

ls_tensor *lsi_norm_part_forward(const lsi_norm_part *part, ls_tape *tape,
                                 ls_tensor *x, ls_tensor *residual)
{
    if (part->sync != NULL)
        return ls_sync_bn_forward(part->sync, tape, x, residual);
    ls_batch_norm_args args = part->local.args;
    args.residual = residual;
    return ls_batch_norm(tape, x, &args);
}
