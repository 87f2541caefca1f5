/*
 * Messages between two ranks, in order.
 */
#ifndef LS_COMM_CORE_MESSAGE_H
#define LS_COMM_CORE_MESSAGE_H

#include "comm/state/state.h"

typedef struct lsi_buffer {
    void *data;
    size_t count;
    ls_dtype dtype;
} lsi_buffer;

/* Queues a message; it moves when lsi_progress is called. */
void lsi_message_send(ls_group *group, lsi_message *message, int class_,
                      lsi_buffer buffer, int peer);
void lsi_message_receive(ls_group *group, lsi_message *message, int class_,
                         lsi_buffer buffer, int peer);

/* Moves all queued messages as far as possible. */
ls_status lsi_messages_progress(ls_group *group);

#endif
