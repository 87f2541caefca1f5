/*
 * Collectives between nodes. The vector goes in segments, and each segment
 * through three stages:
 *
 *   enter   the ranks of the node do a collective on it
 *   cross   ranks of different nodes send each other parts of it, in steps
 *   leave   the ranks of the node do another collective
 *
 * Several segments are in flight: while one crosses, the next is entered and
 * the one before leaves. A collective is a set of lsi_stages, which say what is
 * done to a segment in each stage:
 *
 *                    enter             cross                   leave
 *   all_reduce       add up            rails, both ways        gather
 *   reduce           add up            rails, to the root      gather there
 *   broadcast        from the root     rails, from the root    gather elsewhere
 *   reduce_scatter   add up            to the owners           fold
 *   all_gather                         from the owners         gather
 *
 * Rails (nodes_rails.c) join ranks with equal places on their nodes. Owners
 * (nodes_owners.c) are who gets, or has, an element; what they own needs no
 * crossing on their own node, where it is added up, or gathered, beside that.
 */
#ifndef LS_COMM_COLL_NODES_PIPELINE_H
#define LS_COMM_COLL_NODES_PIPELINE_H

#include "comm/schedule/nodes.h"
#include "comm/schedule/shares.h"
#include "comm/state/state.h"

enum { LSI_SEGMENTS = 4 }; /* in flight, if they are long */

typedef struct lsi_segment {
    lsi_range elements;  /* rails: of the vector */
    lsi_shares carried;  /* owners: what this node carries for another, */
    lsi_shares returned; /* what another carries for this one, */
    lsi_shares own;      /* what nobody has to carry; */
    bool last_turn;      /* and there are no other nodes to come */
    /* Collectives of the node; done if there is none. */
    lsi_collective enter;
    lsi_collective beside;      /* while the segment crosses */
    lsi_collective leave;       /* maybe of the segment that was here before */
    int posted, crossed;        /* steps: their messages are out, or over */
    lsi_bulk *transfers;        /* the messages of a step */
    lsi_wire_request *requests; /* of their fragments */
    size_t n_transfers, n_requests;
    unsigned char *memory; /* for the collective */
} lsi_segment;

/* What a collective needs; of messages and bytes the most of any segment. */
typedef struct lsi_pipeline_plan {
    size_t segments;  /* in flight */
    int steps;        /* in which a segment crosses */
    size_t transfers; /* messages of this rank in one of them */
    size_t bytes;     /* in these */
    size_t memory;    /* of a segment */
    size_t common;    /* of all together */
} lsi_pipeline_plan;

typedef struct lsi_stages {
    void (*plan)(const lsi_collective *op, lsi_pipeline_plan *plan);
    /* Before the first segment; NULL for nothing. */
    void (*open)(const lsi_collective *op);
    /* What the next segment is about; false if there is none. */
    bool (*next)(const lsi_collective *op, lsi_segment *segment);
    ls_status (*enter)(const lsi_collective *op, lsi_segment *segment);
    /* Posts the messages of step `crossed`; then they have arrived. */
    ls_status (*post)(lsi_collective *op, lsi_segment *segment);
    void (*arrived)(const lsi_collective *op, lsi_segment *segment);
    /* Comes for one segment after the other, in order. */
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
    size_t begun, left; /* segments that have come so far */
    bool ended;         /* there are no more to begin */
    int turn;           /* owners: to whom the next segment goes, */
    size_t window;      /* which window it is, */
    size_t folded;      /* and up to which element results are there */
    unsigned char *common;
    lsi_segment segment[]; /* those in flight */
} lsi_pipeline;

static inline lsi_pipeline *lsi_pipeline_of(const lsi_collective *op)
{
    return op->scratch;
}

/* Rounded up, so that what follows begins at a cache line. */
static inline size_t lsi_lines(size_t bytes)
{
    return (bytes + LSI_LINE - 1) / LSI_LINE * LSI_LINE;
}

/* ---- for stages ---------------------------------------------------------- */

/* Posts a message of the segment's step to, or from, a rank; none if empty. */
ls_status lsi_segment_move(lsi_collective *op, lsi_segment *segment, int rank,
                           bool receives, unsigned char *data, size_t bytes);

/* to = what has come from n nodes, folded; an average stays a sum. */
void lsi_fold(const lsi_collective *op, void *to, const void *const *srcs,
              int n, size_t elements);

/*
 * Prepares an op that is a part of another one and moves little or in place: it
 * needs no memory of its own.
 */
void lsi_collective_nest(lsi_collective *op, ls_group *group,
                         const lsi_call *call, const void *send, void *recv);

/* Collectives of the ranks of the node, on n elements that are cut. */
ls_status lsi_node_reduce(const lsi_collective *op, lsi_collective *inner,
                          lsi_cut cut, const void *from, size_t n, void *to);
ls_status lsi_node_gather(const lsi_collective *op, lsi_collective *inner,
                          lsi_cut cut, void *data, size_t n, int root);

#endif
