/*
 * The secret that all hosts of a job share.
 */
#ifndef LS_COMM_RENDEZVOUS_SECRET_H
#define LS_COMM_RENDEZVOUS_SECRET_H

#include <stddef.h>

#include "lockstep/status.h"

enum { LSI_SECRET_LEAST = 16, LSI_SECRET_MOST = 1024 };

/* How a user sets one: for errors. */
#define LSI_SECRET_HOW                                                         \
    "set the same secret on all hosts, in LOCKSTEP_SECRET (the text) or "      \
    "LOCKSTEP_SECRET_FILE (the name of a file). `openssl rand -hex 32` "       \
    "creates a secret"

/*
 * The secret of LOCKSTEP_SECRET or, without it, of the file in
 * LOCKSTEP_SECRET_FILE, without trailing blanks. *out is freed by lsi_free;
 * NULL if neither is set. Errors: too short or long, a file that others may
 * read, a build without HMAC.
 */
ls_status lsi_secret_read(char **out);

#endif
