/*
 * The protocol of the store: frames, each with a header of 12 bytes
 *
 *     0  magic    the four bytes "LsR1"; the last is the version
 *     4  kind     of lsi_frame_kind
 *     5  0
 *     6  bytes of the key, little-endian
 *     8  bytes of the data, little-endian
 *
 * then the key and the data. A client sends HELLO first; handshake.h describes
 * the frames up to WELCOME. Then each of the client's requests gets one answer.
 */
#ifndef LS_COMM_RENDEZVOUS_FRAME_H
#define LS_COMM_RENDEZVOUS_FRAME_H

#include <stdint.h>

#include "comm/rendezvous/store.h"

typedef enum lsi_frame_kind {
    LSI_FRAME_HELLO = 1, /* nonce */
    LSI_FRAME_CHALLENGE, /* whether a secret is asked for; nonce */
    LSI_FRAME_PROOF,     /* that the client knows the secret */
    LSI_FRAME_WELCOME,   /* that the server does */
    LSI_FRAME_REFUSED,   /* why, as text; the connection ends */
    LSI_FRAME_SET,       /* key, value */
    LSI_FRAME_DONE,      /* the answer */
    LSI_FRAME_GET,       /* key; milliseconds, 8 bytes, 0 for ever */
    LSI_FRAME_VALUE,     /* the answer */
    LSI_FRAME_LATE,      /* the other answer */
    LSI_FRAME_MESSAGE,   /* bytes to and from the server's owner; no answer */
    LSI_FRAME_KINDS
} lsi_frame_kind;

enum { LSI_FRAME_HEADER_BYTES = 12, LSI_FRAME_REFUSAL_BYTES = 400 };

typedef struct lsi_frame {
    lsi_frame_kind kind;
    char key[LSI_STORE_KEY_BYTES + 1]; /* "" if it has none */
    const unsigned char *data;         /* where it was read */
    size_t bytes;
} lsi_frame;

/*
 * Reads the frame at the start of `have` bytes. *used is its length. It is 0 if
 * the frame is not complete, and *wanted then is its length, as far as known.
 * LS_ERR_MISMATCH for another version. LS_ERR_FORMAT if the bytes are not a
 * frame, or if it has more than `most` bytes of data.
 */
ls_status lsi_frame_read(const unsigned char *from, size_t have, size_t most,
                         lsi_frame *out, size_t *used, size_t *wanted);

/* Whether a key is valid. */
ls_status lsi_frame_check_key(const char *key);

/* Writes the header; returns the bytes of the whole frame. */
size_t lsi_frame_header(lsi_frame_kind kind, const char *key, size_t bytes,
                        unsigned char out[LSI_FRAME_HEADER_BYTES]);

/* The reason in a REFUSED frame, without control characters. */
void lsi_frame_refusal(const lsi_frame *frame,
                       char out[LSI_FRAME_REFUSAL_BYTES + 1]);

void lsi_frame_put_number(unsigned char out[8], uint64_t number);
uint64_t lsi_frame_get_number(const unsigned char from[8]);

#endif
