/*
 * Which message a receive gets. A user's messages carry tags and may be
 * received from any rank, so they need not be received in the order in which
 * they arrive.
 */
#ifndef LS_COMM_CORE_MATCHING_H
#define LS_COMM_CORE_MATCHING_H

#include "comm/state/state.h"

/* A message is to be received: the envelope and from whom are filled in. */
void lsi_matching_ask(ls_group *group, lsi_message *message);

/* Withdraws a receive whose message has not begun to arrive. For message.c. */
void lsi_matching_withdraw(ls_group *group, lsi_message *message);

/* Begins a probe for a message, or ends it (NULL). */
void lsi_matching_probe(ls_group *group, lsi_probe *probe);

/*
 * Makes the next message of a stream, if it has arrived, the first one, to be
 * moved to its receive. LS_OK without a message if no receive waits. `any`: it
 * is this rank's turn to serve receives from any rank.
 */
ls_status lsi_matching_next(ls_group *group, lsi_stream *stream, bool any);

/* Serves kept messages, then receives from any rank, in turns. */
ls_status lsi_matching_serve(ls_group *group);

/* A kept message has arrived: it goes to its receive, if it has one. */
void lsi_matching_complete(ls_group *group, lsi_message *kept);

/* Frees the kept messages. */
void lsi_matching_forget(ls_group *group);

#endif
