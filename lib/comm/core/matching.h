/*
 * Which message a receive gets. A user's messages carry tags and may be
 * received from anybody, so they need not be received in the order in which
 * they come.
 */
#ifndef LS_COMM_CORE_MATCHING_H
#define LS_COMM_CORE_MATCHING_H

#include "comm/state/state.h"

/* A message is to be received: the envelope and from whom are filled in. */
void lsi_matching_ask(ls_group *group, lsi_message *message);

/* It is no longer, if it has not begun to come. For message.c. */
void lsi_matching_withdraw(ls_group *group, lsi_message *message);

/* A probe looks for a message, from now on, or (NULL) no more. */
void lsi_matching_probe(ls_group *group, lsi_probe *probe);

/*
 * Makes the next message of a stream, if it has come, the first one, to be
 * moved to whoever asks for it: LS_OK without one if nobody does. One that
 * anybody may send is matched here only if it is this rank's turn to.
 */
ls_status lsi_matching_next(ls_group *group, lsi_stream *stream, bool any);

/* What is asked of anybody, or has been kept, in turn. */
ls_status lsi_matching_serve(ls_group *group);

/* A message that was kept has come: it goes to whoever has asked for it. */
void lsi_matching_complete(ls_group *group, lsi_message *kept);

/* Frees what nobody has asked for. */
void lsi_matching_forget(ls_group *group);

#endif
