/* Whether ranks compute alike: the same bits, the same instructions. */
#ifndef LS_MODEL_PARALLEL_LEVELS_H
#define LS_MODEL_PARALLEL_LEVELS_H

#include "lockstep/group.h"

/*
 * LS_ERR_ARGUMENT on all ranks if they ask for different bits (ls_set_bits).
 * Under fast bits rank 0 logs a line if ranks use different instruction levels.
 * Collective.
 */
ls_status lsi_levels_compare(ls_group *group);

#endif
