/*
 * Collectives between nodes. The vector is cut into segments, and each segment
 * passes through three stages:
 *
 *   enter   the ranks of the node do a collective on it
 *   cross   ranks of different nodes send each other parts of it, in steps
 *   leave   the ranks of the node do another collective
 *
 * Several segments are in flight: while one crosses, the next is entered and
 * the one before leaves. A collective is a set of lsi_stages, the functions for
 * each stage of a segment:
 *
 *                    enter             cross                   leave
 *   all_reduce       add up            rails, both ways        gather
 *   reduce           add up            rails, to the root      gather there
 *   broadcast        from the root     rails, from the root    gather elsewhere
 *   reduce_scatter   add up            to the owners           fold
 *   all_gather                         from the owners         gather
 *
 * Rails (nodes_rails.c) join ranks with equal places on their nodes. The owner
 * (nodes_owners.c) of an element is the rank that gets it, or has it. Owned
 * elements do not cross on their owner's node, which adds them up, or gathers
 * them, meanwhile.
 */
#ifndef LS_COMM_COLL_NODES_PIPELINE_H
#define LS_COMM_COLL_NODES_PIPELINE_H

#include "comm/schedule/nodes.h"
#include "comm/schedule/shares.h"
#include "comm/state/state.h"

enum { LSI_SEGMENTS = 4 }; /* number in flight, if they are long */

typedef struct lsi_segment {
    lsi_range elements;  /* rails: elements of the vector */
    lsi_shares carried;  /* owners: shares carried for another node */
    lsi_shares returned; /* owners: shares that another node carries */
    lsi_shares own;      /* owners: shares that stay on this node */
    int turn;            /* owners: turn of the other node */
    size_t slot;         /* owners: number of the window's memory */
    /* Collectives of the node; an unused one is done. */
    lsi_collective enter;
    lsi_collective beside;      /* while the segment crosses */
    lsi_collective leave;       /* maybe still of the slot's last segment */
    int posted, crossed;        /* steps with messages posted, or done */
    lsi_bulk *transfers;        /* messages of a step */
    lsi_wire_request *requests; /* requests of their fragments */
    lsi_wire_request *grants;   /* of each message */
    size_t n_transfers, n_requests;
    unsigned char *memory; /* scratch for the collective */
} lsi_segment;

/* The needs of a collective; messages and bytes are the most of any segment. */
typedef struct lsi_pipeline_plan {
    size_t segments;  /* number in flight */
    int steps;        /* steps in which a segment crosses */
    size_t transfers; /* messages of this rank in a step */
    size_t bytes;     /* bytes of the messages of a step */
    size_t memory;    /* bytes of scratch of a segment */
    size_t common;    /* bytes of scratch of all segments */
    bool grants;      /* each message has one; the same on all ranks */
} lsi_pipeline_plan;

typedef struct lsi_stages {
    void (*plan)(const lsi_collective *op, lsi_pipeline_plan *plan);
    /* Called before the first segment, or NULL. */
    void (*open)(const lsi_collective *op);
    /* Sets the elements or shares of the next segment; false after the last. */
    bool (*next)(const lsi_collective *op, lsi_segment *segment);
    ls_status (*enter)(const lsi_collective *op, lsi_segment *segment);
    /*
     * `post` posts the messages of step `crossed`; `arrived` follows once they
     * are done.
     */
    ls_status (*post)(lsi_collective *op, lsi_segment *segment);
    void (*arrived)(const lsi_collective *op, lsi_segment *segment);
    /* Called for one segment after the other, in order. */
    ls_status (*leave)(const lsi_collective *op, lsi_segment *segment);
    lsi_leap_fn *leap; /* rails: the steps */
} lsi_stages;

extern const lsi_stages lsi_all_reduce_stages;
extern const lsi_stages lsi_reduce_stages;
extern const lsi_stages lsi_broadcast_stages;
extern const lsi_stages lsi_reduce_scatter_stages;
extern const lsi_stages lsi_all_gather_stages;

typedef struct lsi_pipeline {
    const lsi_stages *stages;
    lsi_pipeline_plan plan;
    size_t begun, left; /* number of segments begun, or left, so far */
    bool ended;         /* all segments have begun */
    int turn;           /* owners: turn of the next segment's node */
    size_t window;      /* owners: window of the next segment */
    size_t owned;       /* owners: windows begun that are not empty here */
    unsigned char *common;
    lsi_segment segment[]; /* segments in flight */
} lsi_pipeline;

static inline lsi_pipeline *lsi_pipeline_of(const lsi_collective *op)
{
    return op->scratch;
}

/* Bytes rounded up to whole cache lines. */
static inline size_t lsi_lines(size_t bytes)
{
    return (bytes + LSI_LINE - 1) / LSI_LINE * LSI_LINE;
}

/* ---- for stages ---------------------------------------------------------- */

/*
 * Posts a message of the segment's step to, or from, a rank; none if empty.
 *
 * The network keeps what a rank has not asked for yet. Where data go one way,
 * nothing would stop a sender before the end of the vector. So there the
 * receiver sends a grant, an empty message, once it has asked. The sender's
 * step is over when the grant has come: it is ahead by the segments in flight.
 */
ls_status lsi_segment_move(lsi_collective *op, lsi_segment *segment, int rank,
                           bool receives, unsigned char *data, size_t bytes);

/* to = the fold of the data of n nodes; an average stays a sum. */
void lsi_fold(const lsi_collective *op, void *to, const void *const *srcs,
              int n, size_t elements);

/*
 * Prepares an op that is a part of another one and moves little data, or in
 * place. It allocates no memory.
 */
void lsi_collective_nest(lsi_collective *op, ls_group *group,
                         const lsi_call *call, const void *send, void *recv);

/* Collectives of the ranks of the node, on n elements that are cut. */
ls_status lsi_node_reduce(const lsi_collective *op, lsi_collective *inner,
                          lsi_cut cut, const void *from, size_t n, void *to);
ls_status lsi_node_gather(const lsi_collective *op, lsi_collective *inner,
                          lsi_cut cut, void *data, size_t n, int root);

#endif
