/*
 * Memory of processes.
 */
#ifndef LS_COMM_NODE_SHM_H
#define LS_COMM_NODE_SHM_H

#include "comm/node/transport.h"

/*
 * Takes over a memfd that all processes of the job hold (closed on failure
 * too) and marks the caller as `rank`, alive until its process ends.
 */
ls_status lsi_node_memory_shm(int memfd, int rank, lsi_node_memory **out);

/* A new file for a job, large enough for ever and empty. */
ls_status lsi_shm_create(int *memfd);

#endif
