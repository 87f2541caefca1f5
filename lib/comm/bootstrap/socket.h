/*
 * The messages of the rendezvous, each one packet on a unix socket.
 */
#ifndef LS_COMM_BOOTSTRAP_SOCKET_H
#define LS_COMM_BOOTSTRAP_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

/* What a rank says: on arrival, and again when its group is open. */
typedef struct lsi_hello {
    uint64_t magic;
    int32_t rank, size;
    int32_t pid;
    int32_t status; /* ls_status */
} lsi_hello;

/* What rank 0 answers. */
typedef struct lsi_answer {
    uint64_t magic;
    int32_t status;
    char text[488]; /* why, if status is an error */
} lsi_answer;

/* Changes with the layout of anything that is shared. */
#define LSI_RENDEZVOUS_MAGIC 0x6c6f636b73740004u

/*
 * Time left; created from seconds, 0 meaning no limit. It is time of the
 * suspending clock, that of the thread which has made it
 * (base/suspending_clock.h).
 */
typedef struct lsi_deadline {
    uint64_t at_ns; /* 0: never */
} lsi_deadline;

lsi_deadline lsi_deadline_in(double seconds);

/*
 * For poll: milliseconds until the next look, the end or -1 if there is none. 0
 * at the end only, so that who has polled in vain for longer goes on.
 */
int lsi_deadline_poll(lsi_deadline deadline);

/* Listens at, or connects to, a name. A descriptor, or -errno. */
int lsi_listen(const char *name, int backlog);
int lsi_connect(const char *name);

/* Whether the process at the other end runs as the same user. */
int lsi_same_user(int fd);

/* 0, or -1 with errno set. A descriptor goes along unless it is -1. */
int lsi_send_packet(int fd, const void *data, size_t bytes, int descriptor);

/*
 * 1 for a packet of exactly `bytes`, 0 if the other end is gone, -1 on errors
 * (ETIMEDOUT, EPROTO). *descriptor gets one that came along, or -1.
 */
int lsi_receive_packet(int fd, void *data, size_t bytes, int *descriptor,
                       lsi_deadline deadline);

/*
 * A name that shows that its process lives, to which nobody has to listen: a
 * descriptor to be closed, or -errno. The second is false if no process of this
 * network namespace has the name.
 */
int lsi_show_name(const char *name);
bool lsi_name_is_shown(const char *name);

#endif
