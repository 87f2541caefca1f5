/*
 * Functions shared by the algorithms made of point-to-point messages. Half
 * types are carried as f32 until the last reduction is done, so that each
 * result is rounded once.
 */
#ifndef LS_COMM_COLL_POINTS_H
#define LS_COMM_COLL_POINTS_H

#include "comm/coll/algorithm.h"
#include "comm/core/message.h"
#include "comm/core/paths.h"

/* The type in which partial sums travel. */
ls_dtype lsi_wide_dtype(const lsi_collective *op);

/* Bytes of `elements` partial sums. */
size_t lsi_wide_bytes(const lsi_collective *op, size_t elements);

/* to[i] = (wide) from[i]; a plain copy, or none, if it is the same type. */
void lsi_widen(const lsi_collective *op, void *to, const void *from,
               size_t elements);

/*
 * acc[i] = acc[i] op more[i], both wide, or more[i] op acc[i] if `more` comes
 * first; the average stays a sum.
 */
void lsi_accumulate(const lsi_collective *op, void *acc, const void *more,
                    size_t elements, bool more_first);

/* to[i] = from[i] (wide), divided for an average and rounded. */
void lsi_narrow(const lsi_collective *op, void *to, void *from,
                size_t elements);

/*
 * The vector of partial sums, in the receive buffer if that is wide enough,
 * otherwise at the start of the scratch. After it, room for incoming messages.
 */
unsigned char *lsi_sums(const lsi_collective *op);
unsigned char *lsi_incoming(const lsi_collective *op);

/* Bytes of lsi_sums in the scratch memory, or 0. */
size_t lsi_sums_scratch(const lsi_collective *op);

/* Posts the one message that a step sends, or receives. */
void lsi_post_send(lsi_collective *op, lsi_buffer buffer, int peer);
void lsi_post_receive(lsi_collective *op, lsi_buffer buffer, int peer);

/*
 * For each step 1..steps calls post, waits until its messages are done, and
 * calls finish unless it is NULL.
 */
ls_status lsi_points_steps(lsi_collective *op, int steps,
                           void (*post)(lsi_collective *op, int step),
                           void (*finish)(lsi_collective *op, int step));

/* As lsi_points_steps, after the data has been widened into the sums. */
ls_status lsi_points_run(lsi_collective *op, int steps,
                         void (*post)(lsi_collective *op, int step),
                         void (*finish)(lsi_collective *op, int step));

/* Elements of the largest block. */
size_t lsi_largest_block(const lsi_collective *op);

#endif
