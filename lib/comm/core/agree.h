/*
 * No rank decides alone: a rank that cannot take part in a collective arrives
 * all the same and says so, and the collective is over on all ranks.
 */
#ifndef LS_COMM_CORE_AGREE_H
#define LS_COMM_CORE_AGREE_H

#include "comm/state/state.h"

/*
 * Takes this rank's place in `call` without taking part: `status` and the last
 * recorded sentence say why. Returns them once all ranks have arrived; the
 * others get the same status with this rank's name. The group stays usable.
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
 * The same before ranks make something together, where there is no call yet. A
 * group that is NULL is this rank alone.
 */
ls_status lsi_agree_to_plan(ls_group *group, ls_status status);

#endif
