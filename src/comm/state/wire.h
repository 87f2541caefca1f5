/*
 * What groups that span machines need from below: messages of bytes between
 * processes that some launcher has started. A module implements it over an MPI
 * library or UCX and is loaded when asked for, so that the library needs none
 * of them. It stands alone: a module includes this file and links nothing of
 * the library.
 *
 * Functions return 0, or -1 and leave a sentence for `error`. None but `open`,
 * `gather` and `close` waits for others; the first two return LSI_WIRE_LATE,
 * and a sentence, if not all have come within so many seconds (0: they wait for
 * ever). Nothing then works any more. Calls come from one thread at a time.
 */
#ifndef LS_COMM_STATE_WIRE_H
#define LS_COMM_STATE_WIRE_H

#include <stddef.h>
#include <stdint.h>

enum {
    LSI_WIRE_VERSION = 3,  /* changes with this file */
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

/* A message in flight. Its bytes must stay where they are until it is done. */
typedef struct lsi_ticket {
    uint64_t handle;
} lsi_ticket;

/*
 * What the library tells a module that is to be opened. MPI knows all of it
 * better, and only needs the time.
 */
typedef struct lsi_wire_start {
    int rank, size;
    double seconds;
    const char *devices; /* of the network, as UCX_NET_DEVICES; NULL: all */
    /*
     * recv[r * bytes ...] = what rank r sends. Collective; for as long as the
     * wire is open. Asks `idle` now and then, unless it is NULL, and gives up
     * if that is not 0. LSI_WIRE_LATE or -1 if it fails; the library then knows
     * why.
     */
    int (*gather)(const void *send, size_t bytes, void *recv, double seconds,
                  int (*idle)(void));
} lsi_wire_start;

typedef struct lsi_wire {
    int version;
    const char *library; /* "Open MPI v4.1.4"; once open */
    int highest_tag;     /* once open */
    /* Joins the others: who one is, and how many there are. Collective. */
    int (*open)(const lsi_wire_start *start, int *rank, int *size);
    /*
     * recv[r * bytes ...] = what rank r sends. Collective. NULL if ranks must
     * have met before the wire is opened.
     */
    int (*gather)(const void *send, size_t bytes, void *recv, double seconds);
    /*
     * Messages between two ranks with one tag arrive in the order in which they
     * were sent; one that is received may be shorter than there is room.
     */
    int (*send)(const void *data, size_t bytes, int peer, int tag,
                lsi_ticket *ticket);
    int (*receive)(void *data, size_t bytes, int peer, int tag,
                   lsi_ticket *ticket);
    /* *done is the bytes that have moved, or -1 for not yet. */
    int (*test)(lsi_ticket *ticket, int64_t *done);
    /* Gives up a receive that is not done; its bytes are then left alone. */
    void (*cancel)(lsi_ticket *ticket);
    /* Leaves, if all is well and all others leave, too. */
    void (*close)(void);
    const char *(*error)(void);
} lsi_wire;

/* What a module exports; looked up by this name. */
#define LSI_WIRE_SYMBOL "lsi_wire_of_module"
const lsi_wire *lsi_wire_of_module(void);

#endif
