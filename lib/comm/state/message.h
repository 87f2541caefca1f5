/*
 * Messages between two ranks, and the streams that they are a part of.
 */
#ifndef LS_COMM_STATE_MESSAGE_H
#define LS_COMM_STATE_MESSAGE_H

#include <stdbool.h>

#include "comm/state/operation.h"
#include "comm/state/segment.h"
#include "comm/state/wire.h"

typedef struct lsi_message lsi_message;

/* The header of a message in its stream; a multiple of 32 bytes. */
typedef struct lsi_envelope {
    uint64_t dtype, count, bytes, tag;
} lsi_envelope;

/* A list of messages, oldest first. */
typedef struct lsi_message_list {
    lsi_message *first, *last;
} lsi_message_list;

/* A message between nodes that has been posted. */
typedef struct lsi_wire_request {
    struct lsi_wire_request *next, **link;
    lsi_ticket ticket;
    int rank; /* the rank at the other end */
    bool receives, pending;
    size_t bytes; /* arrived bytes */
} lsi_wire_request;

/*
 * One end of a stream: messages that wait for their turn, oldest first. A
 * user's receives wait in a separate list until a matching envelope has come.
 */
typedef struct lsi_stream {
    lsi_channel *channel;
    lsi_message_list queue, waiting;
    struct lsi_stream *next_active;
    uint64_t position; /* bytes this end has written or read */
    uint64_t credits;  /* between nodes: given or taken; internode_channel.c */
    int peer;
    bool receives, active, matches; /* matches: for a user's receives */
    uint64_t end; /* between nodes: the last position of a sender that has left
                     and has sent messages; 0: not known */
    /* Between nodes: the next envelope, which may have no receive yet. */
    bool head_posted, head_arrived;
    lsi_wire_request head;
    lsi_envelope envelope;
} lsi_stream;

/* A message of any length, which travels in fragments; see bulk.c. */
typedef struct lsi_bulk {
    unsigned char *data;
    size_t bytes;
    int rank, tag; /* of the other end */
    bool receives;
    lsi_wire_request *requests; /* `room` of them may be in flight at once */
    size_t room;
    size_t posted, arrived; /* numbers of fragments */
    size_t held;            /* number of last fragments not to be posted yet */
} lsi_bulk;

enum { LSI_MESSAGE_FRAGMENTS = 8 };

/* The parts of a message to or from another node; net/internode_channel.c. */
typedef struct lsi_wire_message {
    lsi_envelope arrived;
    lsi_wire_request head, credit;
    bool posted; /* the head is, or has been, in flight */
    bool asked;  /* a receive of a credit is posted */
    lsi_bulk body;
    lsi_wire_request fragments[LSI_MESSAGE_FRAGMENTS];
} lsi_wire_message;

struct lsi_message {
    lsi_message *next;
    unsigned char *data;
    lsi_envelope envelope;
    int peer, tag; /* as asked for, perhaps any; then as received */
    uint64_t turn; /* position among all waiting receives */
    bool kept;     /* came before its receive; then that is claimed_by */
    lsi_message *claimed_by;
    bool opened;     /* the envelope has moved */
    size_t moved;    /* bytes of the payload, within a node */
    uint64_t record; /* number of its record; 0: part of a collective */
    /* Ticks of its start for the timeline, if it has a record; 0: none. */
    uint64_t began;
    lsi_operation operation;
    bool done;
    lsi_wire_message wire;
};

static inline void lsi_message_append(lsi_message_list *list,
                                      lsi_message *message)
{
    message->next = NULL;
    if (list->first == NULL)
        list->first = message;
    else
        list->last->next = message;
    list->last = message;
}

/* Takes a message off a list; false if it is not there. */
static inline bool lsi_message_strike(lsi_message_list *list,
                                      const lsi_message *message)
{
    lsi_message *before = NULL;
    lsi_message **link = &list->first;
    while (*link != NULL && *link != message) {
        before = *link;
        link = &before->next;
    }
    if (*link == NULL)
        return false;
    *link = message->next;
    if (list->last == message)
        list->last = before;
    return true;
}

/* A user's question about a message that has not been received. */
typedef struct lsi_probe {
    int peer, tag; /* as in lsi_message */
    bool found;
    lsi_envelope envelope;
} lsi_probe;

#endif
