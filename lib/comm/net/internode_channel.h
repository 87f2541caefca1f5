/*
 * The channel to ranks of other nodes.
 */
#ifndef LS_COMM_NET_INTERNODE_CHANNEL_H
#define LS_COMM_NET_INTERNODE_CHANNEL_H

#include "comm/state/state.h"

extern const lsi_channel_kind lsi_channel_wire;

#endif
