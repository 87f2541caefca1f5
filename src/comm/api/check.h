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

/*
 * The arguments and the buffers of a collective, from what its operation sends
 * and receives. What a rank neither reads nor writes is not looked at.
 */
ls_status lsi_check_buffers(const ls_group *group, const lsi_call *call,
                            const void *send, const void *recv);

/*
 * The buffers as the operation is to see them: NULL where only the root sends
 * or receives and this rank is another.
 */
const void *lsi_sent_from(const ls_group *group, const lsi_call *call,
                          const void *send);
void *lsi_received_at(const ls_group *group, const lsi_call *call, void *recv);

/* A pointer is there unless there is nothing to point at. */
ls_status lsi_check_extent(const lsi_call *call, lsi_buffer_extent span);

#endif
