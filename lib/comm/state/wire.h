/*
 * The services that groups spanning machines need: messages of bytes between
 * processes that some launcher has started. A module implements them over an
 * MPI library or UCX, and is loaded on request, so that the library needs
 * neither. The file stands alone: a module includes it and links nothing of the
 * library.
 *
 * Functions return 0, or -1 and leave a sentence for `error`. Only MPI's
 * `open`, its `gather` and `close` wait for others. The first two return
 * LSI_WIRE_LATE, and a sentence, if not all ranks have come within `seconds`
 * (0: they wait for ever). No function works any more then. Calls come from one
 * thread at a time.
 *
 * MPI knows the ranks of a job. UCX knows processes: each sends the others its
 * address, by any means they have, and all groups of a process use the same
 * connections.
 */
#ifndef LS_COMM_STATE_WIRE_H
#define LS_COMM_STATE_WIRE_H

#include <stddef.h>
#include <stdint.h>

enum {
    LSI_WIRE_VERSION = 6,  /* changes with this file */
    LSI_WIRE_LATE = -2,    /* a result */
    LSI_WIRE_ANYBODY = -1, /* as a peer to receive from */
    LSI_WIRE_LIBRARY_BYTES = 128,
    /*
     * Messages may be longer, but quick ones should not be. A long one is
     * announced, and sent when the other end has asked for it. Over TCP the
     * request waits behind all data in the same direction. So of two long
     * messages in opposite directions one moves after the other. This size is
     * within Open MPI's btl_tcp_eager_limit, and within the buffers that
     * mpi_meet.c and net/ucx set for UCX.
     */
    LSI_WIRE_PIECE = 60 * 1024
};

/* A message in flight. Its bytes must stay in place until it is done. */
typedef struct lsi_ticket {
    uint64_t handle;
} lsi_ticket;

/* The library's input to the opening of a module. */
typedef struct lsi_wire_start {
    int size; /* number of ranks, by which UCX chooses its transport */
    double seconds;
    const char *devices; /* of the network, as UCX_NET_DEVICES; NULL: all */
} lsi_wire_start;

/* The module's answer to the library. */
typedef struct lsi_wire_opened {
    int rank, size;      /* MPI's; of UCX -1 */
    const void *address; /* UCX's, of this process; MPI NULL */
    size_t bytes;        /* of the address */
} lsi_wire_opened;

typedef struct lsi_wire {
    int version;
    const char *library; /* "Open MPI v4.1.4"; once open */
    int highest_tag;     /* once open */
    /* May be called again. MPI joins the others: collective. UCX: local. */
    int (*open)(const lsi_wire_start *start, lsi_wire_opened *out);
    /*
     * recv[r * bytes ...] = the bytes that rank r sends. Collective. NULL if
     * ranks must have connected before the wire is opened.
     */
    int (*gather)(const void *send, size_t bytes, void *recv, double seconds);
    /*
     * Numbers the processes of `size` received addresses. `peer[r]` is the
     * number of the r-th, which has `bytes` bytes, perhaps with trailing zeros,
     * and is held once. `let_go` ends the hold of `meet` or `hold`. NULL if the
     * numbers are those of MPI's ranks.
     */
    int (*meet)(const void *addresses, size_t bytes, int size, int *peer);
    void (*hold)(const int *peer, int size);
    void (*let_go)(const int *peer, int size);
    /*
     * Drops late messages with the `tags` tags from `first` on, which have no
     * receiver any more. NULL if MPI keeps them.
     */
    void (*retire)(int first, int tags);
    /*
     * Messages between two ranks with one tag arrive in the order in which they
     * were sent. A message may be shorter than the room of its receive. `from`
     * is the rank that sends: a process may be several.
     */
    int (*send)(const void *data, size_t bytes, int peer, int from, int tag,
                lsi_ticket *ticket);
    int (*receive)(void *data, size_t bytes, int peer, int from, int tag,
                   lsi_ticket *ticket);
    /* *done is the number of moved bytes, or -1 while in flight. */
    int (*test)(lsi_ticket *ticket, int64_t *done);
    /* Gives up a receive that is not done; its bytes are then left alone. */
    void (*cancel)(lsi_ticket *ticket);
    /*
     * Gives up a send that is not done. The wire owns `owned`, which has the
     * send's bytes, and calls `release` with it some time later. If `owned` is
     * NULL, the bytes are left alone when this returns, at the cost of the
     * connection if need be. MPI has a copy of them. NULL if all sends are done
     * at once.
     */
    void (*drop)(lsi_ticket *ticket, void *owned, void (*release)(void *));
    /* The process ends: waits until the others have read all sent data. */
    void (*close)(void);
    const char *(*error)(void);
} lsi_wire;

/* The symbol that a module exports, by which it is looked up. */
#define LSI_WIRE_SYMBOL "lsi_wire_of_module"
const lsi_wire *lsi_wire_of_module(void);

#endif
