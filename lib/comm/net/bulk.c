/*
 * Long messages between ranks of different nodes, in fragments that MPI sends
 * without a handshake. Both ends know the length of a bulk message and cut it
 * alike.
 */
#include <assert.h>

#include "base/error.h"
#include "comm/net/internode.h"

size_t lsi_bulk_fragments(size_t bytes)
{
    return (bytes + LSI_WIRE_PIECE - 1) / LSI_WIRE_PIECE;
}

static size_t bytes_of(const lsi_bulk *bulk, size_t fragment)
{
    assert(fragment < lsi_bulk_fragments(bulk->bytes));
    const size_t left = bulk->bytes - fragment * LSI_WIRE_PIECE;
    return left < LSI_WIRE_PIECE ? left : LSI_WIRE_PIECE;
}

static ls_status post(ls_group *group, lsi_bulk *bulk)
{
    const size_t begin = bulk->posted * LSI_WIRE_PIECE;
    const size_t bytes = bytes_of(bulk, bulk->posted);
    lsi_wire_request *request = &bulk->requests[bulk->posted % bulk->room];
    bulk->posted++;
    return bulk->receives
               ? lsi_internode_receive(group, request, bulk->data + begin,
                                       bytes, bulk->rank, bulk->tag)
               : lsi_internode_send(group, request, bulk->data + begin, bytes,
                                    bulk->rank, bulk->tag);
}

ls_status lsi_bulk_move(ls_group *group, lsi_bulk *bulk)
{
    const size_t fragments = lsi_bulk_fragments(bulk->bytes);
    while (bulk->arrived < fragments) {
        assert(bulk->arrived <= bulk->posted &&
               bulk->posted <= bulk->arrived + bulk->room);
        while (bulk->posted + bulk->held < fragments &&
               bulk->posted < bulk->arrived + bulk->room)
            LS_TRY(post(group, bulk));
        if (bulk->arrived == bulk->posted)
            return LS_IN_PROGRESS;
        lsi_wire_request *request = &bulk->requests[bulk->arrived % bulk->room];
        LS_TRY(lsi_internode_test(group, request));
        if (bulk->receives && request->bytes != bytes_of(bulk, bulk->arrived))
            return lsi_internode_garbled(group, bulk->rank);
        bulk->arrived++;
    }
    return LS_OK;
}
