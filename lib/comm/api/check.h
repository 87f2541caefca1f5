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
    size_t blocks; /* number of blocks of `count` elements */
} lsi_buffer_extent;

/* The buffers of a collective with a count for each rank. */
typedef struct lsi_counted_buffers {
    const void *send;
    void *recv;
    lsi_counts counts;
    const size_t *own; /* count of the one block to send, or NULL */
} lsi_counted_buffers;

ls_status lsi_check_group(const ls_group *group, const char *what);

/* Checks the group, type, reduction, root and count. */
ls_status lsi_check_arguments(const ls_group *group, const lsi_call *call);

/*
 * Checks the arguments and the buffers of a collective, by the extents of its
 * operation. Buffers that this rank neither reads nor writes are not checked.
 */
ls_status lsi_check_buffers(const ls_group *group, const lsi_call *call,
                            const void *send, const void *recv);

/*
 * Checks a collective with a count for each rank. `own` is the count that this
 * rank has given for its one block; the counts of all ranks must have the same
 * number for it.
 */
ls_status lsi_check_counted(const ls_group *group, const lsi_call *call,
                            const lsi_counted_buffers *buffers);

/*
 * The buffers that the operation gets: NULL where only the root sends or
 * receives and this rank is not the root.
 */
const void *lsi_sent_from(const ls_group *group, const lsi_call *call,
                          const void *send);
void *lsi_received_at(const ls_group *group, const lsi_call *call, void *recv);

/* Checks that the buffer is not NULL, unless it has 0 elements. */
ls_status lsi_check_extent(const lsi_call *call, lsi_buffer_extent span);

#endif
