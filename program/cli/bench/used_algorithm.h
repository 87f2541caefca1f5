/* Which algorithm served a group's last collective. */
#ifndef LS_CLI_BENCH_USED_ALGORITHM_H
#define LS_CLI_BENCH_USED_ALGORITHM_H

#include "lockstep/group.h"

/* Its name, static; "none" if there was no collective yet. */
const char *lsi_used_algorithm(const ls_group *group);

#endif
