/*
 * Ranks decide together: a rank that cannot take part in a collective arrives
 * with its refusal, and the collective is over on all ranks.
 */
#ifndef LS_COMM_CORE_AGREE_H
#define LS_COMM_CORE_AGREE_H

#include "comm/state/state.h"

/*
 * Takes this rank's place in `call` without taking part: `status` and the last
 * recorded message are the reason. Returns them once all ranks have arrived.
 * The other ranks get the same status with this rank's name. The group stays
 * usable.
 */
ls_status lsi_refuse(ls_group *group, const lsi_call *call, ls_status status);

/* All-gather of `bytes` (<= LSI_FLAT_BYTES) from each rank, as `call`. */
ls_status lsi_exchange(ls_group *group, const lsi_call *call, const void *send,
                       size_t bytes, void *recv);

/*
 * After a step that may have failed on one rank: LS_OK if no rank passes an
 * error. `call` is what the ranks must agree to be doing.
 */
ls_status lsi_agree(ls_group *group, const lsi_call *call, ls_status status);

/*
 * As lsi_agree, before ranks create an object together, where no call exists
 * yet. Without a group (NULL), returns `status`.
 */
ls_status lsi_agree_to_plan(ls_group *group, ls_status status);

#endif
