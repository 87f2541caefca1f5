/*
 * The channels to ranks of this node.
 */
#ifndef LS_COMM_NODE_CHANNEL_MEMORY_H
#define LS_COMM_NODE_CHANNEL_MEMORY_H

#include "comm/state/state.h"

/* To a thread of this process. */
extern const lsi_channel_kind lsi_channel_process;

/* To a process that maps the same memory. */
extern const lsi_channel_kind lsi_channel_memory;

#endif
