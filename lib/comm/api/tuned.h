/*
 * How the ranks of a node use measurements on it. These are the machine's
 * selection table (machine_table.h), or without one the probe of the kernel's
 * copy (copy_probe.h). The first rank of a node reads the table, so all ranks
 * there have the same one.
 */
#ifndef LS_COMM_API_TUNED_H
#define LS_COMM_API_TUNED_H

#include "comm/state/state.h"

/*
 * Collective, for each new group on one node, before its windows are used. The
 * first group of a job learns for all later ones.
 */
ls_status lsi_tuned_learn(ls_group *group);

/*
 * Collective: as ls_group_select with the line of the machine's table for this
 * group, or with the defaults.
 */
ls_status lsi_tuned_select(ls_group *group);

#endif
