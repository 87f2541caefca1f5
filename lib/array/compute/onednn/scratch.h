/* One block of scratch memory of each thread, for plans in turn. */
#ifndef LS_ARRAY_COMPUTE_ONEDNN_SCRATCH_H
#define LS_ARRAY_COMPUTE_ONEDNN_SCRATCH_H

#include <stddef.h>

#include "lockstep/status.h"

/* The calling thread's scratch memory, at least that large. */
ls_status lsi_onednn_reserve(size_t bytes, char **out);

#endif
