/*
 * Messages from the launcher to the hosts that it has started over ssh, on
 * their standard input: consecutive "LENGTH:KIND...," (netstrings). So no shell
 * interprets their contents, and a secret is on no command line.
 */
#ifndef LS_LAUNCH_SSH_MESSAGE_H
#define LS_LAUNCH_SSH_MESSAGE_H

#include <stddef.h>

#include "lockstep/status.h"

/* Kinds of messages. All but the last two come first, in any order. */
enum {
    LSI_SSH_FOLDER = 'C',   /* working folder */
    LSI_SSH_VARIABLE = 'E', /* NAME=VALUE of the environment */
    LSI_SSH_WORD = 'A',     /* a word of the launcher's command line */
    LSI_SSH_GO = '.',       /* start: all is sent */
    LSI_SSH_SIGNAL = 'N'    /* number of a signal to forward */
};

/*
 * The first line of the other direction: this word, the version, a free port
 * and an address of the host ("-": not known).
 */
#define LSI_SSH_HELLO "lockstep-on-host"

enum { LSI_SSH_MESSAGE_MOST = 1 << 20 };

typedef struct lsi_ssh_message {
    char kind;
    const char *text; /* not terminated */
    size_t bytes;
    size_t used; /* bytes of the input: 0 if the message is not complete */
} lsi_ssh_message;

/* The first message in `data`; LS_ERR_ARGUMENT if it cannot be one. */
ls_status lsi_ssh_message_read(const char *data, size_t bytes,
                               lsi_ssh_message *out);

/* Writes a whole message to a descriptor; a missing reader is not an error. */
void lsi_ssh_message_write(int fd, char kind, const char *text);

#endif
