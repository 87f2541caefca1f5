/*
 * What a group does that spans nodes, and others do not.
 */
#ifndef LS_COMM_NET_WIRE_HOOKS_H
#define LS_COMM_NET_WIRE_HOOKS_H

#include "comm/net/internode.h"

extern const lsi_internode_hooks lsi_wire_hooks;

#endif
