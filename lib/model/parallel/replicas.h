/*
 * Comparing copies: gradients, weights and optimizer state that several ranks,
 * or the nodes, should hold with the same bits. The calls are public
 * (ls_ddp_compare_gradients, ls_ddp_compare_state).
 *
 * Ranks exchange one digest of everything. Only if it differs do they exchange
 * one for each tensor, then for parts of the first that differs. Each decision
 * follows from gathered numbers, so all ranks make the same one.
 */
#ifndef LS_MODEL_PARALLEL_REPLICAS_H
#define LS_MODEL_PARALLEL_REPLICAS_H

#include <stdint.h>

#include "lockstep/group.h"

typedef struct lsi_comparison {
    uint64_t *all;     /* [ranks] digests of everything */
    uint64_t compared; /* bytes found equal so far */
    int64_t equal_in;  /* last step in which weights were equal; -1: none */
} lsi_comparison;

ls_status lsi_comparison_init(lsi_comparison *comparison, ls_group *group);
void lsi_comparison_release(lsi_comparison *comparison);

#endif
