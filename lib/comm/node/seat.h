/*
 * Where this rank runs: which package, memory node and last-level cache.
 */
#ifndef LS_COMM_NODE_SEAT_H
#define LS_COMM_NODE_SEAT_H

#include "comm/state/segment.h"
#include "lockstep/status.h"

/*
 * From LOCKSTEP_PLACEMENT if that is set (`rank` counts the ranks of the job on
 * this node), else from /sys and the CPUs that this thread may use. Fails if
 * the variable is wrong.
 */
ls_status lsi_seat_of(int rank, lsi_seat *out);

/* Three numbers and slashes for each rank: "0/0/0,0/0/8". */
ls_status lsi_seat_parse(const char *text, int rank, lsi_seat *out);

#endif
