/*
 * Which algorithm serves which operation and size.
 *
 *     all_reduce:0-8k:flat;8k-inf:direct|staged,broadcast:0-inf:staged
 *
 * An operation, then ranges in bytes (end exclusive; k, m and g are powers of
 * 1024) and for each the algorithms to try, the first that all ranks can use
 * wins. The size is that of the largest send buffer. Sizes that no range
 * covers are served as by default. Two entries have a number instead:
 *
 *     window:128k   bytes of a chunk of staged data, 4k to 256k
 *     spins:700     looks for a peer in the time of a sleep and a wake-up, 10
 *                   to 5000; a rank spins for that or a multiple of it
 */
#ifndef LS_COMM_API_SELECT_H
#define LS_COMM_API_SELECT_H

#include "comm/state/state.h"

/* Fills the table with the defaults. */
void lsi_select_default(lsi_select_table *table);

/*
 * Reads whether the environment asks for results that do not depend on the
 * algorithm, LOCKSTEP_DETERMINISTIC, into the table.
 */
ls_status lsi_select_environment(lsi_select_table *table);

/*
 * For a group on nodes whose fold by nodes is that of all places (place.h):
 * under portable bits it folds so, unless LOCKSTEP_DETERMINISTIC asks for the
 * fold over ranks.
 */
void lsi_select_places(lsi_select_table *table);

/*
 * Fills the table with the ranges of `line`, followed by the defaults. In a
 * deterministic table, the defaults skip algorithms that do not fold over all
 * ranks.
 */
ls_status lsi_select_parse(const char *line, lsi_select_table *table);

/* Whether the table can choose an algorithm that reads other ranks' private
 * memory. */
bool lsi_select_copies(const lsi_select_table *table);

/* Whether the table can choose an algorithm that adds in another order. */
bool lsi_select_reorders(const lsi_select_table *table);

/* A number that differs if the tables made of `line` differ. */
uint64_t lsi_select_hash(const lsi_select_table *table, const char *line);

#endif
