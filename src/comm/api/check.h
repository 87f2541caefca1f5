/*
 * Checks of the arguments of the public calls. Local: a call that fails here
 * has not begun, and the other ranks do not learn of it.
 */
#ifndef LS_COMM_API_CHECK_H
#define LS_COMM_API_CHECK_H

#include "comm/state/state.h"

/* A buffer that a call reads or writes; bytes computed without overflow. */
typedef struct lsi_buffer_extent {
    const char *name;
    const void *data;
    size_t blocks; /* of count elements each */
} lsi_buffer_extent;

ls_status lsi_check_group(const ls_group *group, const char *what);

/* Group, type, reduction, root, count. */
ls_status lsi_check_arguments(const ls_group *group, const lsi_call *call);

/* A pointer is there unless there is nothing to point at. */
ls_status lsi_check_extent(const lsi_call *call, lsi_buffer_extent span);

/*
 * The arguments, both buffers, and that the two do not overlap, except that
 * recv may begin `blocks` blocks after send (before, if negative).
 */
ls_status lsi_check_both(const ls_group *group, const lsi_call *call,
                         lsi_buffer_extent send, lsi_buffer_extent recv,
                         long blocks);

#endif
