/*
 * The chunks in which a vector travels between nodes: their memory, and where
 * in it and in the vector things are. See rails_nodes.c.
 */
#ifndef LS_COMM_COLL_NODES_NODES_CHUNK_H
#define LS_COMM_COLL_NODES_NODES_CHUNK_H

#include "base/partition.h"
#include "comm/state/state.h"

enum { LSI_CHUNKS = 4 }; /* on the way at once */

typedef enum lsi_chunk_stage {
    LSI_CHUNK_SUMMED,
    LSI_CHUNK_EXCHANGED,
    LSI_CHUNK_WAITS,
    LSI_CHUNK_SPREAD
} lsi_chunk_stage;

typedef struct lsi_chunk {
    lsi_collective sum, spread; /* inside the node */
    lsi_range range;            /* elements of the vector */
    lsi_chunk_stage stage;      /* what is being done */
    int step;                   /* of the exchange */
    bool posted;                /* the messages of that step */
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

/* The rails that this rank carries. */
lsi_range lsi_own_rails(const ls_group *group);

/* Elements of a whole chunk. */
size_t lsi_chunk_elements(const lsi_collective *op);

/* Of a rail, if so many are cut into rails. */
size_t lsi_rail_elements(const lsi_collective *op, size_t elements);

/* The most bulk messages that come in for a rail in one step; as many go out.
 */
size_t lsi_rail_legs(const lsi_collective *op);

/* The most bytes of one of them. */
size_t lsi_leg_bytes(const lsi_collective *op);

/* ---- places -------------------------------------------------------------- */

lsi_travel *lsi_travel_of(const lsi_collective *op);

/* Of a rail: its bulk messages, the requests of their fragments, room for what
 * comes. */
lsi_bulk *lsi_rail_bulks(const lsi_collective *op, const lsi_chunk *c,
                         size_t rail);
lsi_wire_request *lsi_rail_requests(const lsi_collective *op,
                                    const lsi_chunk *c, size_t rail);
unsigned char *lsi_rail_incoming(const lsi_collective *op, const lsi_chunk *c,
                                 size_t rail);

/* Where the results of a chunk go, and its sums until they are results. */
unsigned char *lsi_chunk_result(const lsi_collective *op, const lsi_chunk *c);
unsigned char *lsi_chunk_sums(const lsi_collective *op, const lsi_chunk *c);

/* Elements of some parts of a rail, counted from the start of the chunk. */
lsi_range lsi_rail_range(const lsi_collective *op, const lsi_chunk *c,
                         size_t rail, lsi_range parts);

#endif
