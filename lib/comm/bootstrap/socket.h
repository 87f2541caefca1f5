/*
 * The messages of the rendezvous, each one packet on a unix socket.
 */
#ifndef LS_COMM_BOOTSTRAP_SOCKET_H
#define LS_COMM_BOOTSTRAP_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

/* A rank's message: on arrival, and again when its group is open. */
typedef struct lsi_hello {
    uint64_t magic;
    int32_t rank, size;
    int32_t pid;
    int32_t status; /* ls_status */
} lsi_hello;

/* The answer of rank 0. */
typedef struct lsi_answer {
    uint64_t magic;
    int32_t status;
    char text[488]; /* why, if status is an error */
} lsi_answer;

/* Changes with the layout of any shared structure. */
#define LSI_RENDEZVOUS_MAGIC 0x6c6f636b73740005u

/*
 * A deadline, created from seconds; 0: no limit. Its time is that of the
 * suspending clock of the thread that has made it (base/suspending_clock.h).
 */
typedef struct lsi_deadline {
    uint64_t at_ns; /* 0: never */
} lsi_deadline;

lsi_deadline lsi_deadline_in(double seconds);

/*
 * For poll: milliseconds until the next look or the deadline; -1 without one. 0
 * only once the deadline has passed. A caller whose poll has found nothing goes
 * on until then.
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
 * lsi_show_name binds a name that shows that its process lives: a descriptor to
 * be closed, or -errno. No peer has to connect to it. lsi_name_is_shown is
 * false if no process of this network namespace has the name.
 */
int lsi_show_name(const char *name);
bool lsi_name_is_shown(const char *name);

#endif
