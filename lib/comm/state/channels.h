/*
 * The channel table of a group: the only place that knows whether its ranks are
 * on one node or on several. Code that depends on this asks here. Code that
 * acts on a rank uses the rank's channel.
 */
#ifndef LS_COMM_STATE_CHANNELS_H
#define LS_COMM_STATE_CHANNELS_H

#include "comm/state/state.h"

static inline const lsi_channel_kind *lsi_channel_to(const ls_group *group,
                                                     int rank)
{
    return group->channels.peer[rank].channel;
}

/* Whether the rank publishes in memory that this one maps. */
static inline bool lsi_shares_memory(const ls_group *group, int rank)
{
    return lsi_channel_to(group, rank)->shares_memory;
}

/* Whether some ranks are on other nodes. Their messages wake nobody. */
static inline bool lsi_spans_nodes(const ls_group *group)
{
    return group->channels.hooks != NULL;
}

/* ---- what a group that spans nodes does besides -------------------------- */

static inline ls_status lsi_channels_progress(ls_group *group)
{
    return lsi_spans_nodes(group) ? group->channels.hooks->progress(group)
                                  : LS_OK;
}

static inline int lsi_channels_awaited(const ls_group *group)
{
    return lsi_spans_nodes(group) ? group->channels.hooks->awaited(group) : -1;
}

static inline void lsi_channels_announce_awaits(ls_group *group)
{
    if (lsi_spans_nodes(group))
        group->channels.hooks->announce_awaits(group);
}

static inline void
lsi_channels_announce_failure(ls_group *group,
                              const lsi_failure_record *failure)
{
    if (lsi_spans_nodes(group))
        group->channels.hooks->announce_failure(group, failure);
}

static inline void lsi_channels_abandon(ls_group *group)
{
    if (lsi_spans_nodes(group))
        group->channels.hooks->abandon(group);
}

#endif
