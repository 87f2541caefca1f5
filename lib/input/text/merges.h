/*
 * Byte-pair encoding proper: the merges of two tokens into one, and their use
 * on a word.
 *
 * Sennrich, Haddow and Birch, "Neural machine translation of rare words with
 * subword units", 2016. While neighbours are in the list of merges, the pair
 * that is first in the list becomes one token; of several places the leftmost.
 */
#ifndef LS_INPUT_TEXT_MERGES_H
#define LS_INPUT_TEXT_MERGES_H

#include "input/text/buffers.h"

typedef struct lsi_merge {
    uint32_t left, right; /* tokens */
    uint32_t rank;        /* place in the list */
    uint32_t whole;       /* the token that they become */
} lsi_merge;

typedef struct lsi_merges {
    lsi_merge *slots; /* by hash of the pair; whole is LSI_NO_TOKEN if free */
    size_t mask, n;
} lsi_merges;

/* Room for n. */
ls_status lsi_merges_new(lsi_merges *merges, size_t n);
void lsi_merges_free(lsi_merges *merges);

/* A pair that is added twice has the last merge. No more than n pairs. */
void lsi_merges_add(lsi_merges *merges, const lsi_merge *merge);

/* NULL if the two do not become one. */
const lsi_merge *lsi_merges_find(const lsi_merges *merges, uint32_t left,
                                 uint32_t right);

/* Memory that merging needs in addition to the tokens; all zeros at first. */
typedef struct lsi_merge_scratch {
    void *block;
    size_t bytes;
} lsi_merge_scratch;

void lsi_merge_scratch_free(lsi_merge_scratch *scratch);

/*
 * Merges ids[0..n-1] in place as far as possible; returns the remaining number
 * in *n. O(n log n).
 */
ls_status lsi_merges_apply(const lsi_merges *merges, lsi_merge_scratch *scratch,
                           uint32_t *ids, size_t *n);

#endif
