#include "comm/schedule/pull.h"

#include <assert.h>

/* Shards stay where they are in the vector. */
static lsi_pull shards_of(const lsi_place *place, int peer)
{
    const lsi_range bytes =
        lsi_cut_part(&place->cut, place->block, place->size, peer);
    return (lsi_pull){bytes.begin, bytes.begin, lsi_range_size(bytes)};
}

static size_t elements_of(const size_t *begin, int rank)
{
    return begin[rank + 1] - begin[rank];
}

/* In an exchange a rank knows only what it sends and receives itself. */
static lsi_pull counted_of(const lsi_place *place, int rank, int peer)
{
    const lsi_block_table *c = place->counted;
    const size_t item = place->item;
    if (place->operation == LSI_OP_ALL_GATHERV)
        return (lsi_pull){0, c->receives[peer] * item,
                          elements_of(c->receives, peer) * item};
    if (peer == place->self)
        return (lsi_pull){c->sends[rank] * item,
                          rank == peer ? c->receives[peer] * item : 0,
                          elements_of(c->sends, rank) * item};
    assert(rank == place->self);
    return (lsi_pull){c->from[peer] * item, c->receives[peer] * item,
                      elements_of(c->receives, peer) * item};
}

lsi_pull lsi_pull_of(const lsi_place *place, int rank, int peer)
{
    const size_t mine = (size_t)rank * place->block;
    const size_t theirs = (size_t)peer * place->block;
    const lsi_pull nothing = {0, 0, 0};
    assert(rank >= 0 && rank < place->size && peer >= 0 && peer < place->size);
    const lsi_operation_row *row = lsi_operation_of(place->operation);
    if (place->counted != NULL)
        return counted_of(place, rank, peer);
    if (row->root == LSI_ROOT_SENDER && peer != place->root)
        return nothing;
    if (row->root == LSI_ROOT_RECEIVER && rank != place->root)
        return nothing;
    if (row->root == LSI_ROOT_ANYBODY && place->root != LSI_ROOT_ALL &&
        rank != place->root)
        return nothing;
    if (row->sends == LSI_EXTENT_SHARD)
        return shards_of(place, peer);
    return (lsi_pull){row->sends == LSI_EXTENT_BLOCKS ? mine : 0,
                      row->receives == LSI_EXTENT_BLOCKS ? theirs : 0,
                      place->block};
}

size_t lsi_pull_most(const lsi_place *place)
{
    size_t most = 0;
    if (place->counted != NULL)
        return place->counted->most * place->item;
    if (lsi_operation_of(place->operation)->sends != LSI_EXTENT_SHARD)
        return place->block;
    for (int r = 0; r < place->size; r++)
        most =
            shards_of(place, r).bytes > most ? shards_of(place, r).bytes : most;
    return most;
}

size_t lsi_contribution(const lsi_place *place, int rank)
{
    const lsi_operation_row *row = lsi_operation_of(place->operation);
    if (row->sends == LSI_EXTENT_NOTHING ||
        (row->root == LSI_ROOT_SENDER && rank != place->root))
        return 0;
    if (place->operation == LSI_OP_ALL_GATHERV)
        return elements_of(place->counted->receives, rank) * place->item;
    if (place->operation == LSI_OP_ALL_TO_ALLV)
        return place->counted->sends[place->size] * place->item;
    return row->sends == LSI_EXTENT_BLOCKS ? (size_t)place->size * place->block
                                           : place->block;
}

size_t lsi_contribution_most(const lsi_place *place)
{
    /* In an exchange a rank does not know the counts of the others. */
    if (place->operation == LSI_OP_ALL_TO_ALLV)
        return 0;
    if (place->operation == LSI_OP_ALL_GATHERV)
        return place->counted->most * place->item;
    /* Where only one rank sends, this is the root; else all send as much. */
    return lsi_contribution(place, place->root);
}

int lsi_pull_readers(const lsi_place *place)
{
    return lsi_operation_of(place->operation)->sends == LSI_EXTENT_BLOCKS
               ? place->size
               : 1;
}

bool lsi_pull_serves_all(const lsi_place *place)
{
    const lsi_root root = lsi_operation_of(place->operation)->root;
    return lsi_pull_readers(place) == 1 && root != LSI_ROOT_RECEIVER &&
           (root != LSI_ROOT_ANYBODY || place->root == LSI_ROOT_ALL);
}
