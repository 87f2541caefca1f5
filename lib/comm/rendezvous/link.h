/*
 * One connection of the store: frames in and out, without waiting.
 */
#ifndef LS_COMM_RENDEZVOUS_LINK_H
#define LS_COMM_RENDEZVOUS_LINK_H

#include <stdbool.h>

#include "comm/rendezvous/frame.h"

typedef struct lsi_link {
    int fd;      /* -1: none */
    size_t most; /* bytes of data that a frame from there may have */
    unsigned char *in, *out;
    size_t in_used, in_room, in_taken; /* taken: of the frame handed out last */
    size_t out_sent, out_used, out_room;
} lsi_link;

/* Bytes of data that a frame may have before its peer is verified. */
enum { LSI_LINK_STRANGER_BYTES = 512 };

/*
 * Takes over the descriptor of a TCP connection, and makes it non-blocking.
 * After `seconds` of silence the kernel probes whether the other host is there.
 * The connection has failed after as many seconds more without an answer.
 */
void lsi_link_open(lsi_link *link, int fd, double seconds);
void lsi_link_close(lsi_link *link);

/*
 * Reads the bytes that have arrived. LS_ERR_PEER_DEAD if the other side has
 * closed the connection, LS_ERR_TIMEOUT if it cannot be reached. Bytes that
 * arrived before can still be taken.
 */
ls_status lsi_link_receive(lsi_link *link);

/*
 * Takes the next whole frame; its data is valid until the next call with this
 * link. False without one.
 */
ls_status lsi_link_next(lsi_link *link, lsi_frame *out, bool *got);

/* Queues a frame and sends what the connection takes. */
ls_status lsi_link_send(lsi_link *link, lsi_frame_kind kind, const char *key,
                        const void *data, size_t bytes);

/* Sends more of what is queued. */
ls_status lsi_link_flush(lsi_link *link);

/* Bytes that are queued. */
size_t lsi_link_queued(const lsi_link *link);

#endif
