/*
 * Inside data parallelism: functions for the training loop beyond the public
 * interface.
 */
#ifndef LS_MODEL_PARALLEL_DDP_H
#define LS_MODEL_PARALLEL_DDP_H

#include <stdatomic.h>

#include "lockstep/parallel.h"

struct lsi_safetensors_file;

/*
 * From now on ls_ddp_backward leaves the gradients as sums over the samples;
 * lsi_ddp_grad_scale, given to ls_optimizer_step, makes them means. This saves
 * a pass over all gradients.
 */
void lsi_ddp_defer_scale(ls_ddp *ddp);

/*
 * Flags that are OR-ed over the ranks together with the gradients, at no extra
 * cost. After lsi_ddp_watch_flags a rank's flags are the lowest LSI_DDP_FLAGS
 * bits of *flags, which may be set at any time. The function lsi_ddp_all_flags
 * returns the bits that any rank had set when it sent its gradients in the last
 * sync. All ranks get the same bits.
 */
enum { LSI_DDP_FLAGS = 3 };
void lsi_ddp_watch_flags(ls_ddp *ddp, const atomic_uint *flags);
unsigned lsi_ddp_all_flags(const ls_ddp *ddp);

/*
 * Mean of the losses of the last sync, given to ls_ddp_accumulate and
 * ls_ddp_backward, over the samples of all ranks. It is the same on all ranks,
 * to seven digits, and infinite or NaN if one of the losses is. It travels with
 * the gradients. 0 without samples.
 */
double lsi_ddp_loss(const ls_ddp *ddp);

/* Factor by which the gradients of the last sync are still to be multiplied. */
double lsi_ddp_grad_scale(const ls_ddp *ddp);

/* Seconds that this rank has waited for other ranks, or for bytes. */
double lsi_ddp_waited(const ls_ddp *ddp);

/*
 * The data of which ranks have copies to compare, in words: "gradients, weights
 * and optimizer state". Whether there are any, and whether of all of these.
 */
const char *lsi_ddp_copies(const ls_ddp *ddp, bool *any, bool *all);

/*
 * Bytes of this rank's memory that ls_ddp_compare_gradients and
 * ls_ddp_compare_state have found equal to other copies so far.
 */
uint64_t lsi_ddp_compared(const ls_ddp *ddp);

/*
 * Copies rank 0's buffers (running statistics) to all ranks, where the model
 * let them drift apart. Collective.
 */
ls_status lsi_ddp_broadcast_buffers(ls_ddp *ddp);

/*
 * Fills parameters from a file that rank 0 has opened: each rank gets those
 * that it keeps, in pieces of a few MiB. Only on rank 0 are the arguments used,
 * and `status` says whether it could open the file. An error is that of all
 * ranks. Collective.
 */
ls_status lsi_ddp_load(ls_ddp *ddp, const struct lsi_safetensors_file *file,
                       const ls_named_tensor *tensors, size_t n,
                       ls_status status);

#endif
