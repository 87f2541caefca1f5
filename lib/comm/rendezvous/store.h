/*
 * The limits of the store that `lockstep run` serves, as an ls_store. One user
 * at a time: calls wait, and no other call may be made meanwhile. A key that is
 * set already gets the new value. One error in addition to those of ls_store:
 * LS_ERR_PEER_DEAD if the server is gone.
 */
#ifndef LS_COMM_RENDEZVOUS_STORE_H
#define LS_COMM_RENDEZVOUS_STORE_H

#include "lockstep/group.h"

enum {
    LSI_STORE_KEY_BYTES = 255, /* at most; printable, no blanks, at least 1 */
    LSI_STORE_VALUE_BYTES = 64 * 1024
};

#endif
