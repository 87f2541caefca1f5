/* Whether ranks compute with the same instructions. */
#ifndef LS_MODEL_PARALLEL_LEVELS_H
#define LS_MODEL_PARALLEL_LEVELS_H

#include "lockstep/group.h"

/*
 * Under fast bits rank 0 logs a line if ranks use different instruction levels.
 * Collective; all ranks ask for the same bits.
 */
ls_status lsi_levels_compare(ls_group *group);

#endif
