/*
 * Shared buffers that take memory only where they are used.
 */
#ifndef LS_COMM_API_SHARED_ALLOC_H
#define LS_COMM_API_SHARED_ALLOC_H

#include "lockstep/group.h"

/*
 * As ls_shared_alloc, but without a check of the memory and without a
 * reservation: only touched pages take memory. For buffers of which most pages
 * may never be touched, such as parameters that are in the first rank's part
 * alone.
 */
ls_status lsi_shared_alloc_sparse(ls_group *group, size_t bytes, void **data);

#endif
