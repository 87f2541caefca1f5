/*
 * Bringing blocks between nodes, each of which has one copy of the whole.
 */
#include "base/error.h"
#include "comm/far.h"

/* Who takes a rank's block on a node. */
static int taker(const lsi_far *far, int rank, int node)
{
    const int index = far->index_of[rank] % far->ranks_on[node];
    return far->rank[far->first[node] + index];
}

static ls_status take_from(ls_group *group, unsigned char *vector, size_t block,
                           int node)
{
    const lsi_far *far = group->far;
    for (int i = 0; i < far->ranks_on[node]; i++) {
        const int peer = far->rank[far->first[node] + i];
        if (taker(far, peer, far->node) == group->rank)
            LS_TRY(ls_recv(group, vector + (size_t)peer * block, block, LS_U8,
                           peer));
    }
    return LS_OK;
}

/* In turn k each node sends to the k-th after it. */
ls_status lsi_far_swap(ls_group *group, void *vector, size_t block)
{
    const lsi_far *far = group->far;
    unsigned char *bytes = vector;
    for (int turn = 1; turn < far->nodes; turn++) {
        const int to = (far->node + turn) % far->nodes;
        const int from = (far->node - turn + far->nodes) % far->nodes;
        ls_request *request = NULL;
        LS_TRY(ls_isend(group, bytes + (size_t)group->rank * block, block,
                        LS_U8, taker(far, group->rank, to), &request));
        ls_status status = take_from(group, bytes, block, from);
        if (status == LS_OK)
            status = ls_wait(request);
        ls_request_free(&request);
        LS_TRY(status);
    }
    return LS_OK;
}
