/*
 * Requests that are made inside the library. What it plans itself is a
 * reduction of which every rank keeps the part that it owns.
 */
#ifndef LS_COMM_API_REQUEST_H
#define LS_COMM_API_REQUEST_H

#include "comm/core/message.h"

/*
 * A long vector of which rank r owns elements r * shard .. (r + 1) * shard - 1,
 * and a range of it that begins at element `first`.
 */
typedef struct lsi_shards {
    size_t first, shard;
} lsi_shards;

/*
 * Plans to replace, in place, the elements of the range that this rank owns by
 * their sums over ranks; the others stay as they are. Collective; all ranks
 * pass the same shards. Start, test and wait as for ls_all_reduce_plan.
 */
ls_status lsi_reduce_shards_plan(ls_group *group, lsi_buffer data,
                                 lsi_shards shards, ls_request **request);

/* Starts a collective of which the request is good for once. */
ls_status lsi_request_start(ls_group *group, lsi_call call, const void *send,
                            void *recv, ls_request **request);

/* As lsi_refuse, instead of starting what has been planned. */
ls_status lsi_refuse_planned(ls_request *request, ls_status status);

#endif
