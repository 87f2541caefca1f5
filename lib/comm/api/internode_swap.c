/*
 * Exchanges blocks between nodes, each of which has one copy of the vector.
 */
#include "comm/api/internode_swap.h"

#include "base/error.h"
#include "comm/net/internode.h"

/* The rank of a node that receives a rank's block. */
static int receiver_of(const lsi_internode *net, int rank, int node)
{
    const int index = net->index_of[rank] % net->ranks_on[node];
    return net->rank[net->first[node] + index];
}

static ls_status receive_from(ls_group *group, unsigned char *vector,
                              size_t block, int node)
{
    const lsi_internode *net = group->net;
    for (int i = 0; i < net->ranks_on[node]; i++) {
        const int peer = net->rank[net->first[node] + i];
        if (receiver_of(net, peer, net->node) == group->rank)
            LS_TRY(ls_recv(group, vector + (size_t)peer * block, block, LS_U8,
                           peer, 0));
    }
    return LS_OK;
}

/* In turn k each node sends to the k-th after it. */
ls_status lsi_internode_swap(ls_group *group, void *vector, size_t block)
{
    const lsi_internode *net = group->net;
    unsigned char *bytes = vector;
    for (int turn = 1; turn < net->nodes; turn++) {
        const int to = (net->node + turn) % net->nodes;
        const int from = (net->node - turn + net->nodes) % net->nodes;
        ls_request *request = NULL;
        LS_TRY(ls_isend(group, bytes + (size_t)group->rank * block, block,
                        LS_U8, receiver_of(net, group->rank, to), 0, &request));
        ls_status status = receive_from(group, bytes, block, from);
        if (status == LS_OK)
            status = ls_wait(request);
        ls_request_free(&request);
        LS_TRY(status);
    }
    return LS_OK;
}
