/*
 * Inside data parallelism: what the training loop uses beyond the public
 * interface.
 */
#ifndef LS_MODEL_PARALLEL_DDP_H
#define LS_MODEL_PARALLEL_DDP_H

#include <stdatomic.h>

#include "lockstep/parallel.h"

/*
 * From now on ls_ddp_backward leaves the gradients as sums over the samples;
 * lsi_ddp_grad_scale, given to ls_optimizer_step, makes them means. This saves
 * a pass over all gradients.
 */
void lsi_ddp_defer_scale(ls_ddp *ddp);

/*
 * News of a rank that travel with the gradients, and so cost nothing: from now
 * on the lowest LSI_DDP_NEWS bits of *news, which others may set at any time.
 * lsi_ddp_news are those that were set on any rank when its gradients were sent
 * in the last sync: the same on all ranks.
 */
enum { LSI_DDP_NEWS = 3 };
void lsi_ddp_watch_news(ls_ddp *ddp, const atomic_uint *news);
unsigned lsi_ddp_news(const ls_ddp *ddp);

/*
 * Mean of the losses that ls_ddp_accumulate and ls_ddp_backward were given for
 * the last sync, over the samples of all ranks: the same on all ranks, to seven
 * digits, and infinite or NaN if one of them is. It travels with the gradients.
 * 0 without samples.
 */
double lsi_ddp_loss(const ls_ddp *ddp);

/* What the gradients of the last sync are still to be multiplied by. */
double lsi_ddp_grad_scale(const ls_ddp *ddp);

/* Seconds that this rank has waited for others, or for bytes. */
double lsi_ddp_waited(const ls_ddp *ddp);

/*
 * Copies rank 0's buffers (running statistics) to all ranks, where the model
 * let them drift apart. Collective.
 */
ls_status lsi_ddp_broadcast_buffers(ls_ddp *ddp);

#endif
