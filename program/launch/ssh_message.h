/*
 * What the launcher says to the hosts that it has started over ssh, on their
 * standard input: "LENGTH:KIND...," after one another (netstrings). So that no
 * shell reads what is in them, and a secret is on no command line.
 */
#ifndef LS_LAUNCH_SSH_MESSAGE_H
#define LS_LAUNCH_SSH_MESSAGE_H

#include <stddef.h>

#include "lockstep/status.h"

/* Kinds. First come all but the last two, in any order. */
enum {
    LSI_SSH_FOLDER = 'C',   /* to work in */
    LSI_SSH_VARIABLE = 'E', /* NAME=VALUE of the environment */
    LSI_SSH_WORD = 'A',     /* of the command line of the host's launcher */
    LSI_SSH_GO = '.',       /* that is all: start */
    LSI_SSH_SIGNAL = 'N'    /* its number: pass it on */
};

/* The first line of the other direction: this, the version, a free port and an
 * address of the host ("-": none is known). */
#define LSI_SSH_HELLO "lockstep-on-host"

enum { LSI_SSH_MESSAGE_MOST = 1 << 20 };

typedef struct lsi_ssh_message {
    char kind;
    const char *text; /* not terminated */
    size_t bytes;
    size_t used; /* of the input: 0 if it is not complete */
} lsi_ssh_message;

/* The first message in `data`; LS_ERR_ARGUMENT if it cannot be one. */
ls_status lsi_ssh_message_read(const char *data, size_t bytes,
                               lsi_ssh_message *out);

/* Writes all of a message to a descriptor; that nobody reads is no error. */
void lsi_ssh_message_write(int fd, char kind, const char *text);

#endif
