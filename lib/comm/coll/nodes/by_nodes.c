/*
 * Both folds are one recursion, as in fold/simd/reduce.h. The fold of every
 * stride-th item joins the fold of every second one of them with that of the
 * rest. The items are the nodes, and then the ranks of a node. A tile of each
 * partial result is on the stack, in the type of the sums.
 */
#include "comm/coll/nodes/by_nodes.h"

#include <stdalign.h>

#include "base/half.h"
#include "comm/coll/nodes/pipeline.h"
#include "comm/coll/points.h"
#include "comm/core/paths.h"
#include "comm/net/internode.h"

enum { TILE = 256, TILE_BYTES = TILE * 8, ALL_NODES = -1 };

typedef struct tile {
    alignas(LSI_LINE) unsigned char sums[TILE_BYTES];
} tile;

/* Elements at..at+n-1 of the source of each rank. */
typedef struct folding {
    const lsi_collective *op;
    const void *const *srcs;
    size_t at, n;
} folding;

/* The data of a rank as the sums have it: in its place, or in `room`. */
static const void *data_of(const folding *f, tile *room, int rank)
{
    const lsi_collective *op = f->op;
    const unsigned char *from =
        (const unsigned char *)f->srcs[rank] + f->at * op->item;
    if (!lsi_is_half(op->call.dtype))
        return from;
    lsi_widen(op, room->sums, from, f->n);
    return room->sums;
}

/*
 * The fold of the ranks first, first + stride, ... of a node, or of those
 * nodes. A single source may stay in its place.
 */
static const void *fold(const folding *f, tile *room, int node, int first,
                        int stride)
{
    const lsi_internode *net = f->op->group->net;
    const int items = node == ALL_NODES ? net->nodes : net->ranks_on[node];
    if (first + stride >= items)
        return node == ALL_NODES
                   ? fold(f, room, first, 0, 1)
                   : data_of(f, room, net->rank[net->first[node] + first]);
    tile more;
    const void *const halves[] = {
        fold(f, room, node, first, 2 * stride),
        fold(f, &more, node, first + stride, 2 * stride)};
    lsi_fold(f->op, room->sums, halves, 2, f->n);
    return room->sums;
}

/* With one rank on each node, both orders are the same. */
static bool folds_by_nodes(const ls_group *group)
{
    return group->net != NULL && group->net->nodes < group->size &&
           !group->select->deterministic;
}

void lsi_reduce_ranks(const lsi_collective *op, void *dst,
                      const void *const *srcs, size_t elements)
{
    tile sums;
    if (!folds_by_nodes(op->group)) {
        lsi_reduce_into(op, dst, srcs, op->group->size, elements);
        return;
    }
    for (size_t at = 0; at < elements; at += TILE) {
        const size_t left = elements - at, n = left < TILE ? left : TILE;
        const folding f = {op, srcs, at, n};
        fold(&f, &sums, ALL_NODES, 0, 1); /* of two nodes at least */
        lsi_narrow(op, (unsigned char *)dst + at * op->item, sums.sums, n);
    }
}
