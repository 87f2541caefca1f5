/*
 * Exchanges blocks between nodes, each of which has one copy of the vector.
 */
#include "comm/api/internode_swap.h"

#include "base/error.h"
#include "comm/net/internode.h"
#include "comm/schedule/shares.h"

int lsi_node_count(const ls_group *group)
{
    return group->net != NULL ? group->net->nodes : 1;
}

int lsi_node_of(const ls_group *group, int rank)
{
    return group->net != NULL ? group->net->node_of[rank] : 0;
}

int lsi_counterpart(const ls_group *group, int rank, int node)
{
    const lsi_internode *net = group->net;
    if (net == NULL)
        return rank;
    const int index = net->index_of[rank] % net->ranks_on[node];
    return net->rank[net->first[node] + index];
}

bool lsi_node_is_replica(const ls_group *group, int rank, int replicas)
{
    return lsi_node_of(group, rank) / replicas ==
           lsi_node_of(group, group->rank) / replicas;
}

bool lsi_internode_receives(const ls_group *group, int rank, int replicas)
{
    const int here = lsi_node_of(group, group->rank);
    return lsi_node_of(group, rank) != here &&
           lsi_node_is_replica(group, rank, replicas) &&
           lsi_counterpart(group, rank, here) == group->rank;
}

static ls_status receive_from(ls_group *group, unsigned char *vector,
                              size_t block, int node)
{
    const lsi_internode *net = group->net;
    for (int i = 0; i < net->ranks_on[node]; i++) {
        const int peer = net->rank[net->first[node] + i];
        if (lsi_counterpart(group, peer, net->node) == group->rank)
            LS_TRY(ls_recv(group, vector + (size_t)peer * block, block, LS_U8,
                           peer, 0));
    }
    return LS_OK;
}

ls_status lsi_internode_swap(ls_group *group, void *vector, size_t block,
                             int replicas)
{
    const int node = lsi_node_of(group, group->rank);
    const int first = node - node % replicas;
    unsigned char *bytes = vector;
    for (int turn = 0; turn < replicas - 1; turn++) {
        const int to = first + lsi_turn_to(replicas, node - first, turn);
        const int from = first + lsi_turn_from(replicas, node - first, turn);
        ls_request *request = NULL;
        LS_TRY(ls_isend(group, bytes + (size_t)group->rank * block, block,
                        LS_U8, lsi_counterpart(group, group->rank, to), 0,
                        &request));
        ls_status status = receive_from(group, bytes, block, from);
        if (status == LS_OK)
            status = ls_wait(request);
        ls_request_free(&request);
        LS_TRY(status);
    }
    return LS_OK;
}
