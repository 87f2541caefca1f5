/*
 * Ranks that disagree about a call or a message: found by the rank that sees
 * what another is about to do, and a failure of the whole group.
 */
#ifndef LS_COMM_HEALTH_MISMATCH_H
#define LS_COMM_HEALTH_MISMATCH_H

#include "comm/state/state.h"

/* Compares a rank's call with this rank's; posts and reports a difference. */
ls_status lsi_check_call(lsi_collective *op, int rank);

/* Compares the envelope that has arrived with what the receiver expects. */
ls_status lsi_check_envelope(ls_group *group, const lsi_stream *stream,
                             const lsi_message *message,
                             const lsi_envelope *arrived);

#endif
