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

/* Casts const away: a message has one pointer to send from and receive into. */
static inline unsigned char *lsi_to_send(const void *data)
{
    union {
        const void *read;
        unsigned char *write;
    } at = {data};
    return at.write;
}

/* Queues a message of a collective; it moves when lsi_progress is called. */
void lsi_message_send(ls_group *group, lsi_message *message, int class_,
                      lsi_buffer buffer, int peer);
void lsi_message_receive(ls_group *group, lsi_message *message, int class_,
                         lsi_buffer buffer, int peer);

/* The other end of a message: a rank, and a number that both have chosen. */
typedef struct lsi_peer_tag {
    int peer, tag;
} lsi_peer_tag;

/* Queues a user's message, with a tag; a receive may ask for any tag. */
void lsi_message_send_tag(ls_group *group, lsi_message *message, int class_,
                          lsi_buffer buffer, lsi_peer_tag to);
void lsi_message_ask(ls_group *group, lsi_message *message, lsi_buffer buffer,
                     lsi_peer_tag from);

/*
 * Removes a user's message from the lists if it will never be done, because its
 * group has failed, before its memory is used for something else.
 */
void lsi_message_withdraw(ls_group *group, lsi_message *message);

/* Moves all queued messages as far as possible. */
ls_status lsi_messages_progress(ls_group *group);

#endif
