/*
 * No rank decides alone: a step that may fail on one rank is followed by an
 * agreement, after which it has failed on all or on none.
 */
#ifndef LS_COMM_AGREE_H
#define LS_COMM_AGREE_H

#include "comm/state.h"

typedef struct lsi_vote {
    int64_t status; /* ls_status */
    uint64_t value;
} lsi_vote;

/*
 * Exchanges votes: votes[r] (size entries) receives rank r's. Fails with the
 * status of the first rank that voted with an error; that rank's own message
 * stays as it is. `call` is what the ranks must agree to be doing.
 */
ls_status lsi_agree(ls_group *group, const lsi_call *call, lsi_vote vote,
                    lsi_vote *votes);

#endif
