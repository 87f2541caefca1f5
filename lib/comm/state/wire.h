/*
 * What groups that span machines need from below: messages of bytes between
 * processes that some launcher has started. A module implements it over an MPI
 * library or UCX and is loaded when asked for, so that the library needs none
 * of them. It stands alone: a module includes this file and links nothing of
 * the library.
 *
 * Functions return 0, or -1 and leave a sentence for `error`. None but MPI's
 * `open`, its `gather` and `close` waits for others; the first two return
 * LSI_WIRE_LATE, and a sentence, if not all have come within so many seconds
 * (0: they wait for ever). Nothing then works any more. Calls come from one
 * thread at a time.
 *
 * MPI knows the ranks of a job. UCX knows processes: each tells the others its
 * address, by whatever means they have, and all groups of a process use the
 * same connections.
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
     * Messages may be longer, but not those that should be quick. A long one
     * is announced, and sent when the other end has asked for it. Over TCP the
     * asking waits behind all that goes the same way, so that of two long
     * messages in opposite directions one moves after the other. This is
     * within Open MPI's btl_tcp_eager_limit, and within the buffers that
     * mpi_meet.c and net/ucx ask of UCX.
     */
    LSI_WIRE_PIECE = 60 * 1024
};

/* A message in flight. Its bytes stay where they are until it is done. */
typedef struct lsi_ticket {
    uint64_t handle;
} lsi_ticket;

/* What the library tells a module that is to be opened. */
typedef struct lsi_wire_start {
    int size; /* how many ranks, by which UCX chooses what it connects by */
    double seconds;
    const char *devices; /* of the network, as UCX_NET_DEVICES; NULL: all */
} lsi_wire_start;

/* What the module tells the library then. */
typedef struct lsi_wire_opened {
    int rank, size;      /* MPI's; of UCX -1 */
    const void *address; /* where this process is reached; of MPI NULL */
    size_t bytes;        /* of the address */
} lsi_wire_opened;

typedef struct lsi_wire {
    int version;
    const char *library; /* "Open MPI v4.1.4"; once open */
    int highest_tag;     /* once open */
    /* May be called again. MPI joins the others: collective. UCX: local. */
    int (*open)(const lsi_wire_start *start, lsi_wire_opened *out);
    /*
     * recv[r * bytes ...] = what rank r sends. Collective. NULL if ranks must
     * have met before the wire is opened.
     */
    int (*gather)(const void *send, size_t bytes, void *recv, double seconds);
    /*
     * Numbers the processes of `size` addresses that have come: `peer[r]` is
     * that of the r-th, which has `bytes` bytes and perhaps zeros behind it,
     * and is held once. `let_go` ends what `meet` or `hold` has begun. NULL if
     * the numbers are those of MPI's ranks.
     */
    int (*meet)(const void *addresses, size_t bytes, int size, int *peer);
    void (*hold)(const int *peer, int size);
    void (*let_go)(const int *peer, int size);
    /*
     * What may still come with the tags from `first` on, so many, is of no use
     * to anybody. NULL if MPI keeps it.
     */
    void (*retire)(int first, int tags);
    /*
     * Messages between two ranks with one tag arrive in the order in which they
     * were sent; one that is received may be shorter than there is room. `from`
     * is the rank that sends: a process may be several.
     */
    int (*send)(const void *data, size_t bytes, int peer, int from, int tag,
                lsi_ticket *ticket);
    int (*receive)(void *data, size_t bytes, int peer, int from, int tag,
                   lsi_ticket *ticket);
    /* *done is the bytes that have moved, or -1 for not yet. */
    int (*test)(lsi_ticket *ticket, int64_t *done);
    /* Gives up a receive that is not done; its bytes are then left alone. */
    void (*cancel)(lsi_ticket *ticket);
    /*
     * Gives up a send that is not done. Of `owned`, in which its bytes are, the
     * wire takes care, and calls `release` with it some time; if it is NULL the
     * bytes are left alone when this returns, at the cost of the connection if
     * need be. MPI has a copy of them. NULL if all that is sent is done at
     * once.
     */
    void (*drop)(lsi_ticket *ticket, void *owned, void (*release)(void *));
    /* The process ends: waits until what it has sent is read. */
    void (*close)(void);
    const char *(*error)(void);
} lsi_wire;

/* What a module exports; looked up by this name. */
#define LSI_WIRE_SYMBOL "lsi_wire_of_module"
const lsi_wire *lsi_wire_of_module(void);

#endif
