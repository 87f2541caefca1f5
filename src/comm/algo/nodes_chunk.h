/*
 * The chunks in which a vector travels between nodes: their memory, and where
 * in it and in the vector things are. See lanes_nodes.c.
 */
#ifndef LS_COMM_ALGO_NODES_CHUNK_H
#define LS_COMM_ALGO_NODES_CHUNK_H

#include "base/partition.h"
#include "comm/state.h"

enum { LSI_CHUNKS = 4 }; /* on the way at once */

typedef enum lsi_chunk_stage {
    LSI_CHUNK_SUMMED,
    LSI_CHUNK_EXCHANGED,
    LSI_CHUNK_WAITS,
    LSI_CHUNK_SPREAD
} lsi_chunk_stage;

typedef struct lsi_chunk {
    lsi_op sum, spread;    /* inside the node */
    lsi_range range;       /* elements of the vector */
    lsi_chunk_stage stage; /* what is being done */
    int step;              /* of the exchange */
    bool posted;           /* the messages of that step */
} lsi_chunk;

typedef struct lsi_travel {
    size_t chunks, begun, passed; /* how many have come how far */
    lsi_chunk chunk[LSI_CHUNKS];
} lsi_travel;

/* Rounded up, so that what follows begins at a cache line. */
static inline size_t lsi_lines(size_t bytes)
{
    return (bytes + LSI_LINE - 1) / LSI_LINE * LSI_LINE;
}

/* ---- sizes --------------------------------------------------------------- */

/* The lanes that this rank carries. */
lsi_range lsi_own_lanes(const ls_group *group);

/* Elements of a whole chunk. */
size_t lsi_chunk_elements(const lsi_op *op);

/* Of a lane, if so many are cut into lanes. */
size_t lsi_lane_elements(const lsi_op *op, size_t elements);

/* The most parcels that come in for a lane in one step; as many go out. */
size_t lsi_lane_legs(const lsi_op *op);

/* The most bytes of one of them. */
size_t lsi_leg_bytes(const lsi_op *op);

/* ---- places -------------------------------------------------------------- */

lsi_travel *lsi_travel_of(const lsi_op *op);

/* Of a lane: its parcels, the flights of their pieces, room for what comes. */
lsi_parcel *lsi_lane_parcels(const lsi_op *op, const lsi_chunk *c, size_t lane);
lsi_flight *lsi_lane_flights(const lsi_op *op, const lsi_chunk *c, size_t lane);
unsigned char *lsi_lane_incoming(const lsi_op *op, const lsi_chunk *c,
                                 size_t lane);

/* Where the results of a chunk go, and its sums until they are results. */
unsigned char *lsi_chunk_result(const lsi_op *op, const lsi_chunk *c);
unsigned char *lsi_chunk_sums(const lsi_op *op, const lsi_chunk *c);

/* Elements of some parts of a lane, counted from the start of the chunk. */
lsi_range lsi_lane_range(const lsi_op *op, const lsi_chunk *c, size_t lane,
                         lsi_range parts);

#endif
