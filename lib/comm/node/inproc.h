/*
 * Memory of one process, for threads that play ranks.
 */
#ifndef LS_COMM_NODE_INPROC_H
#define LS_COMM_NODE_INPROC_H

#include "comm/node/transport.h"

ls_status lsi_node_memory_inproc(lsi_node_memory **out);

#endif
