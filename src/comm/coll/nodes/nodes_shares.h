/*
 * What reduce-scatter and all-gather between nodes have in common: the shares
 * in which ranks carry what others own (schedule/shares.h), the windows in
 * which a node works on them, and what goes from rank to rank.
 */
#ifndef LS_COMM_COLL_NODES_NODES_SHARES_H
#define LS_COMM_COLL_NODES_NODES_SHARES_H

#include "comm/coll/nodes/nodes_chunk.h"
#include "comm/state/state.h"

enum { LSI_TRIP_PIECES = 8 }; /* of one trip on the way at once */

/*
 * What a run of ranks owns, and how the ranks of this node share it: as it is
 * owned if it is their own, equally if it is another node's.
 */
typedef struct lsi_stretch {
    int node, rank, ranks; /* the run */
    lsi_range elements;    /* of the vector */
    lsi_cut cut;           /* of them, among the ranks of this node */
    lsi_range offsets;     /* in each shard, that are in use */
    size_t width;          /* of a window of them */
    lsi_range own;         /* this rank's share: elements of the vector */
    size_t upto;           /* up to which element of it all is done */
    unsigned char *data;   /* where the share is */
} lsi_stretch;

/* What one rank sends to another; elements of the vector. */
typedef struct lsi_trip {
    lsi_range elements;
    size_t stretch; /* as many had been made before it */
    lsi_bulk bulk;
    lsi_wire_request requests[LSI_TRIP_PIECES];
} lsi_trip;

/* A place in the order of all windows. */
typedef struct lsi_spot {
    size_t stretch, window;
    size_t passed; /* windows before it */
} lsi_spot;

typedef struct lsi_relay {
    size_t stretches, outs, ins, outs_done, ins_done;
    lsi_spot begun, done;
    lsi_range run, block; /* what this rank's run owns, and this rank */
    lsi_collective inside[LSI_CHUNKS];

    /* Of a reduction. */
    size_t own;   /* the stretch with this rank's block */
    size_t added; /* up to which element of that block */
    unsigned char *widened;
    size_t widened_bytes; /* of a window */
} lsi_relay;

/* ---- sizes and places ---------------------------------------------------- */

/* Of the part of the scratch that is described here. */
size_t lsi_relay_bytes(const lsi_collective *op);

lsi_relay *lsi_relay_of(const lsi_collective *op);
lsi_stretch *lsi_stretches(const lsi_collective *op);
lsi_trip *lsi_outs(const lsi_collective *op);
lsi_trip *lsi_ins(const lsi_collective *op);

/* ---- what there is to do ------------------------------------------------- */

/*
 * The next stretch of a node whose ranks from number *index on have not been
 * looked at, but for where its data is; false if there is none.
 */
bool lsi_next_stretch(const lsi_collective *op, int node, int *index,
                      lsi_stretch *s);

/* Begins with nothing to do. */
void lsi_relay_clear(const lsi_collective *op);

/* Elements that go to a rank, or come from it; of so many bytes each. */
void lsi_add_trip(lsi_collective *op, int rank, bool receives,
                  lsi_range elements, unsigned char *data, size_t unit);

/* What rank `carrier` of another node carries of what this rank owns. */
lsi_range lsi_own_carried(const lsi_collective *op, int carrier);

/* ---- moving on ----------------------------------------------------------- */

/* Moves what is on the way: LS_OK once all has arrived, and left. */
ls_status lsi_move_outs(lsi_collective *op);
ls_status lsi_move_ins(lsi_collective *op);

/* Up to which element of a range all has arrived. */
size_t lsi_arrived_upto(const lsi_collective *op, lsi_range range);

/* The window at a place in order, or NULL behind the last. */
lsi_stretch *lsi_window_at(const lsi_collective *op, lsi_spot *spot,
                           lsi_cut *cut);

/*
 * Begins windows in one order on all ranks of the node, as many as may be under
 * way at once, up to one of which `begin` says LS_IN_PROGRESS: not yet.
 */
typedef ls_status lsi_begin_fn(const lsi_collective *op, lsi_collective *inside,
                               const lsi_stretch *s, lsi_cut cut);
ls_status lsi_begin_windows(const lsi_collective *op, lsi_begin_fn *begin);

/* This rank's share of a window: elements of the vector. */
lsi_range lsi_own_window(const lsi_collective *op, const lsi_stretch *s,
                         const lsi_cut *cut);

/* Takes note of the windows that have been done. */
ls_status lsi_windows_done(const lsi_collective *op);

#endif
