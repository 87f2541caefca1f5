/*
 * Which part of a model's state a rank saves or digests.
 */
#ifndef LS_MODEL_CHECKPOINT_PART_H
#define LS_MODEL_CHECKPOINT_PART_H

#include "base/partition.h"
#include "lockstep/autograd.h"
#include "lockstep/group.h"

/*
 * The range of the flat layout of which this rank handles what it owns. Ranks
 * that own parts of the parameters handle their parts; if every rank owns
 * everything, *part is a different range on each rank. Collective.
 */
ls_status lsi_params_part(ls_group *group, const ls_params *params,
                          lsi_range *part);

#endif
