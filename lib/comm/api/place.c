/* Places of ranks; see place.h. */
#include "comm/api/place.h"

#include "comm/net/internode.h"

static bool is_power_of_two(int n)
{
    return (n & (n - 1)) == 0;
}

bool lsi_nodes_have_places(const lsi_internode *net)
{
    for (int k = 1; k < net->nodes; k++)
        if (net->ranks_on[k] != net->ranks_on[0])
            return false;
    return is_power_of_two(net->nodes) && is_power_of_two(net->ranks_on[0]);
}

static bool by_nodes(const ls_group *group)
{
    return group->net != NULL && !group->select->deterministic &&
           lsi_nodes_have_places(group->net);
}

int lsi_group_place(const ls_group *group, int rank)
{
    const lsi_internode *const net = group->net;
    return by_nodes(group)
               ? net->node_of[rank] + net->index_of[rank] * net->nodes
               : rank;
}

int lsi_group_rank_at(const ls_group *group, int place)
{
    const lsi_internode *const net = group->net;
    return by_nodes(group)
               ? net->rank[net->first[place % net->nodes] + place / net->nodes]
               : place;
}
