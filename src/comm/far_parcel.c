/*
 * Long messages between ranks of different nodes, in pieces that MPI sends
 * without asking. Both ends know how long a parcel is and cut it alike.
 */
#include "base/error.h"
#include "comm/far.h"

size_t lsi_parcel_pieces(size_t bytes)
{
    return (bytes + LSI_WIRE_PIECE - 1) / LSI_WIRE_PIECE;
}

static ls_status post(ls_group *group, lsi_parcel *parcel)
{
    const size_t begin = parcel->posted * LSI_WIRE_PIECE;
    const size_t left = parcel->bytes - begin;
    const size_t bytes = left < LSI_WIRE_PIECE ? left : LSI_WIRE_PIECE;
    lsi_flight *flight = &parcel->flights[parcel->posted % parcel->room];
    parcel->posted++;
    return parcel->receives
               ? lsi_far_receive(group, flight, parcel->data + begin, bytes,
                                 parcel->rank, parcel->tag)
               : lsi_far_send(group, flight, parcel->data + begin, bytes,
                              parcel->rank, parcel->tag);
}

ls_status lsi_parcel_move(ls_group *group, lsi_parcel *parcel)
{
    const size_t pieces = lsi_parcel_pieces(parcel->bytes);
    while (parcel->arrived < pieces) {
        while (parcel->posted + parcel->held < pieces &&
               parcel->posted < parcel->arrived + parcel->room)
            LS_TRY(post(group, parcel));
        if (parcel->arrived == parcel->posted)
            return LS_IN_PROGRESS;
        const ls_status status = lsi_far_test(
            group, &parcel->flights[parcel->arrived % parcel->room]);
        if (status != LS_OK)
            return status;
        parcel->arrived++;
    }
    return LS_OK;
}
