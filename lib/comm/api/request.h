/*
 * Requests that are made inside the library. The library plans reductions of
 * which every rank keeps the part that it owns.
 */
#ifndef LS_COMM_API_REQUEST_H
#define LS_COMM_API_REQUEST_H

#include "comm/api/check.h"
#include "comm/core/message.h"
#include "comm/core/on_done.h"

/*
 * A long vector of which rank r owns elements r * shard .. (r + 1) * shard - 1,
 * and a range of it that begins at element `first`.
 */
typedef struct lsi_shards {
    size_t first, shard;
} lsi_shards;

/*
 * Plans to replace, in place, the elements of the range that this rank owns by
 * their sums over ranks. The other elements do not change. Collective; all
 * ranks pass the same shards. Start, test and wait as for ls_all_reduce_plan.
 */
ls_status lsi_reduce_shards_plan(ls_group *group, lsi_buffer data,
                                 lsi_shards shards, ls_request **request);

enum { LSI_REQUEST_REASON_BYTES = 512 };

/*
 * Memory of a reduction that is computed in another place, and the destination
 * of its result, perhaps in another type. NULL for other reductions.
 */
typedef struct lsi_widened {
    void *block;
    const void *sums;
    void *to;
    size_t count;
    ls_dtype dtype;
} lsi_widened;

struct ls_request {
    lsi_on_done completion; /* first: it stands for the request */
    ls_group *group;
    bool is_message;
    bool is_over; /* once it is done: it was not planned */
    bool in_flight;
    lsi_message message;
    lsi_collective op;
    const void *send; /* as planned; the op may come to read from recv */
    ls_done_fn on_done;
    void *context;
    lsi_widened widened;
    char reason[LSI_REQUEST_REASON_BYTES];
};

typedef struct lsi_ready {
    const void *send;
    void *recv;
    lsi_widened widened;
    ls_status status;
} lsi_ready;

/* Makes an empty request. */
ls_status lsi_request_make(ls_group *group, ls_request **out);

/* Starts a collective; its request can be used once. */
ls_status lsi_request_start(ls_group *group, lsi_call call, const void *send,
                            void *recv, ls_request **request);

/* Starts a collective with a count for each rank. */
ls_status lsi_request_start_counted(ls_group *group, lsi_call call,
                                    const lsi_counted_buffers *buffers,
                                    ls_request **request);

/*
 * Starts a collective of prepared buffers; ready.status is the result of their
 * preparation. Takes over ready.widened, on failure too.
 */
ls_status lsi_request_start_widened(ls_group *group, lsi_call call,
                                    lsi_ready ready, ls_request **request);

/* As lsi_refuse, instead of starting the planned collective. */
ls_status lsi_refuse_planned(ls_request *request, ls_status status);

#endif
