/*
 * Messages between two ranks, as streams of bytes through shared memory.
 */
#ifndef LS_COMM_MESSAGE_H
#define LS_COMM_MESSAGE_H

#include "comm/state.h"

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

/* Compares the envelope that has arrived with what the receiver expects. */
ls_status lsi_check_envelope(ls_group *group, const lsi_stream *stream,
                             const lsi_message *message,
                             const lsi_envelope *arrived);

/* Moves all queued messages as far as possible. */
ls_status lsi_messages_progress(ls_group *group);

#endif
