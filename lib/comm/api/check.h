/*
 * Checks of the arguments of the public calls. Local: a call that fails here
 * has not begun, and the other ranks do not learn of it.
 */
#ifndef LS_COMM_API_CHECK_H
#define LS_COMM_API_CHECK_H

#include "comm/core/counts.h"
#include "comm/state/state.h"

/* A buffer that a call reads or writes; bytes computed without overflow. */
typedef struct lsi_buffer_extent {
    const char *name;
    const void *data;
    size_t blocks; /* of count elements each */
} lsi_buffer_extent;

/* The buffers of a collective in which ranks have counts of their own. */
typedef struct lsi_counted_buffers {
    const void *send;
    void *recv;
    lsi_counts counts;
    const size_t *own; /* of the one block that it sends, or NULL */
} lsi_counted_buffers;

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
 * The same where ranks have counts of their own. `own` is the count that this
 * rank has given for its one block, of which it must have told the others, too.
 */
ls_status lsi_check_counted(const ls_group *group, const lsi_call *call,
                            const lsi_counted_buffers *buffers);

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
