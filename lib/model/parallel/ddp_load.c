/*
 * Weights of a file that only rank 0 reads. They go over the ranks in pieces,
 * and each rank keeps what its strategy gives it: no rank has the whole model
 * unless it keeps it.
 */
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/core/agree.h"
#include "model/parallel/ddp_state.h"
#include "model/tensor/safetensors.h"
#include "model/tensor/tensor.h"

enum { MOST_FLOATS = 1 << 18 };

/* Floats of a parameter that rank 0 will send; none at the end. */
typedef struct header {
    uint64_t param, begin, count;
} header;

typedef struct sending {
    const ls_ddp *ddp;
    float *room; /* [MOST_FLOATS] */
    size_t param;
} sending;

/* Ranks that share a parameter with the first rank of their node keep none. */
static lsi_range kept_by(const ls_ddp *ddp, const lsi_param *param)
{
    const lsi_params_sharing *const s = &ddp->params->sharing;
    if (param->trainable && s->one_copy && !s->divided &&
        ls_group_local_rank(ddp->group) > 0)
        return (lsi_range){0, 0};
    return lsi_tensor_kept(param->tensor);
}

/* Sends what `h` announces on rank 0, or receives it; `room` has it. */
static ls_status spread(const ls_ddp *ddp, const header *h, float *room)
{
    const lsi_param *const param = ddp->params->params.items[h->param];
    const lsi_range piece = {h->begin, h->begin + h->count};
    LS_TRY(ls_broadcast(ddp->channel, room, h->count, LS_F32, 0));
    const lsi_range own = lsi_range_common(piece, kept_by(ddp, param));
    memcpy((float *)lsi_tensor_raw(param->tensor) + own.begin,
           room + (own.begin - piece.begin),
           lsi_range_size(own) * sizeof(float));
    return LS_OK;
}

static ls_status announce(const ls_ddp *ddp, header *h)
{
    return ls_broadcast(ddp->channel, h, sizeof(*h), LS_U8, 0);
}

static ls_status send_piece(void *context, lsi_range elements,
                            const void *values)
{
    const sending *const s = context;
    const float *const from = values;
    for (size_t at = elements.begin; at < elements.end; at += MOST_FLOATS) {
        const size_t left = elements.end - at;
        header h = {s->param, at, left < MOST_FLOATS ? left : MOST_FLOATS};
        memcpy(s->room, from + (at - elements.begin), h.count * sizeof(float));
        LS_TRY(announce(s->ddp, &h));
        LS_TRY(spread(s->ddp, &h, s->room));
    }
    return LS_OK;
}

/* Rank 0. Its failure to read ends the others' wait, too. */
static ls_status send_all(const ls_ddp *ddp, float *room,
                          const lsi_safetensors_file *file,
                          const ls_named_tensor *tensors, size_t n)
{
    sending s = {.ddp = ddp, .room = room};
    header end = {0, 0, 0};
    lsi_error error = {.status = LS_OK};
    for (size_t i = 0; error.status == LS_OK && i < n; i++) {
        const void *const supply = tensors[i].tensor->storage->supply;
        const lsi_param *const param = supply;
        const lsi_range all = {0, (size_t)param->tensor->count};
        s.param = param->index;
        (void)lsi_error_keep(
            &error,
            lsi_safetensors_pieces(file, &tensors[i], all, send_piece, &s));
    }
    const ls_status ended = announce(ddp, &end);
    return error.status != LS_OK ? lsi_error_again(&error) : ended;
}

static ls_status receive_all(const ls_ddp *ddp, float *room)
{
    header h = {.count = 0};
    for (;;) {
        LS_TRY(announce(ddp, &h));
        if (h.count == 0)
            return LS_OK;
        LS_TRY(spread(ddp, &h, room));
    }
}

static ls_status stream(const ls_ddp *ddp, const lsi_safetensors_file *file,
                        const ls_named_tensor *tensors, size_t n)
{
    float *room = NULL;
    LS_TRY(lsi_agree_to_plan(ddp->channel,
                             lsi_alloc(&room, MOST_FLOATS * sizeof(float),
                                       LS_MEMORY_OTHER, "weights of a file")));
    const ls_status status = ls_group_rank(ddp->group) == 0
                                 ? send_all(ddp, room, file, tensors, n)
                                 : receive_all(ddp, room);
    lsi_free(room);
    return status;
}

ls_status lsi_ddp_load(ls_ddp *ddp, const lsi_safetensors_file *file,
                       const ls_named_tensor *tensors, size_t n,
                       ls_status status)
{
    const bool reads = ls_group_rank(ddp->group) == 0;
    if (reads && status == LS_OK)
        status = lsi_safetensors_check(file, tensors, n);
    LS_TRY(lsi_agree_to_plan(ddp->channel, status));
    if (!ddp->params->sharing.one_copy || !lsi_ddp_on_one_node(ddp))
        status = stream(ddp, file, tensors, n);
    else if (reads)
        status = lsi_safetensors_fill(file, tensors, n);
    LS_TRY(lsi_agree_to_plan(ddp->channel, status));
    return lsi_params_settle(ddp->params, LS_OK);
}

ls_status lsi_ddp_new_inference(ls_ddp **out, ls_group *group,
                                ls_params *params, size_t prefetch_layers)
{
    ls_ddp_options options = LS_DDP_OPTIONS_INIT;
    options.strategy = LS_DDP_FSDP;
    options.prefetch_layers = prefetch_layers;
    /* No gradients follow: small buckets need little scratch memory. */
    options.bucket_bytes = 1;
    return ls_ddp_new(out, group, params, &options);
}
