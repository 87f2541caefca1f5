/*
 * Where processes that share nothing leave words for each other. Keys are
 * text, values bytes.
 */
#ifndef LS_RENDEZVOUS_STORE_H
#define LS_RENDEZVOUS_STORE_H

#include <stddef.h>

#include "lockstep/status.h"

enum {
    LSI_STORE_KEY_BYTES = 255, /* 1 to so many, printable, without blanks */
    LSI_STORE_VALUE_BYTES = 64 * 1024
};

/* One user at a time: calls wait, and none may be made meanwhile. */
typedef struct lsi_store {
    void *context;

    /* A key that is set already gets the new value. */
    ls_status (*set)(void *context, const char *key, const void *data,
                     size_t bytes);

    /*
     * Waits until the key is set. *bytes is the room at `data`, then the length
     * of the value; LS_ERR_ARGUMENT if that is more. LS_ERR_TIMEOUT after so
     * many seconds (0: never), LS_ERR_PEER_DEAD if the server is gone; nothing
     * is written then.
     */
    ls_status (*get)(void *context, const char *key, void *data, size_t *bytes,
                     double seconds);
} lsi_store;

#endif
