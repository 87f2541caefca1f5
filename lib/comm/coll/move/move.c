#include "comm/coll/move/move.h"

#include <string.h>

#include "comm/core/paths.h"

void lsi_count_moved(const lsi_collective *op)
{
    const lsi_place place = lsi_place_of(op);
    const int rank = op->group->rank;
    for (int r = 0; r < place.size; r++)
        if (r != rank)
            op->group->counters->bytes_sent +=
                lsi_pull_of(&place, r, rank).bytes;
}

void lsi_move_own(const lsi_collective *op)
{
    const int rank = op->group->rank;
    const lsi_place place = lsi_place_of(op);
    const lsi_pull pull = lsi_pull_of(&place, rank, rank);
    if (pull.bytes == 0)
        return;
    const unsigned char *from = (const unsigned char *)op->send + pull.from;
    unsigned char *to = (unsigned char *)op->recv + pull.to;
    if (from != to)
        memmove(to, from, pull.bytes);
}
