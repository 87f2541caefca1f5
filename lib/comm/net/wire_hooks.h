/*
 * What only a group that spans nodes does, as lsi_internode_hooks.
 */
#ifndef LS_COMM_NET_WIRE_HOOKS_H
#define LS_COMM_NET_WIRE_HOOKS_H

#include "comm/net/internode.h"

extern const lsi_internode_hooks lsi_wire_hooks;

#endif
