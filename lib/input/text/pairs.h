/*
 * Neighbours in words: the count of each pair, the words with it, and the most
 * frequent pair. Training a vocabulary repeats these steps.
 */
#ifndef LS_INPUT_TEXT_PAIRS_H
#define LS_INPUT_TEXT_PAIRS_H

#include "input/text/word_counts.h"

typedef struct lsi_pair {
    uint32_t left, right;
    int64_t count;
    uint32_t places; /* the first of a list of words; 0: none */
    uint32_t round;  /* in which its count has grown last */
} lsi_pair;

/* A pair when it had that count. */
typedef struct lsi_ranked_pair {
    int64_t count;
    uint32_t left, right;
    uint32_t index;
} lsi_ranked_pair;

/* A word as tokens. */
typedef struct lsi_spelling {
    size_t begin; /* in `symbols` */
    uint32_t n;
    int64_t count;
} lsi_spelling;

typedef struct lsi_pairs {
    lsi_pair *all;
    size_t n, room;
    uint32_t *slots; /* 1 + index, by hash */
    size_t mask;
    lsi_ids places; /* links: a word, then the next link; none at 0 */
    lsi_ranked_pair *heap;
    size_t n_heap, heap_room;
    lsi_ids symbols;
    lsi_spelling *words;
    size_t n_words;
    uint32_t round;
    lsi_ids grown; /* pairs whose count has grown in this round */
} lsi_pairs;

/*
 * Of words whose bytes are the tokens bytes[0..255]. *out is freed by
 * lsi_pairs_free, also after an error.
 */
ls_status lsi_pairs_new(lsi_pairs *out, const lsi_word_counts *words,
                        const uint32_t bytes[256]);
void lsi_pairs_free(lsi_pairs *pairs);

/*
 * The pair that occurs most often; of equals the one with the smaller left
 * token, then the smaller right one. NULL if none occurs `least` times.
 */
const lsi_pair *lsi_pairs_best(lsi_pairs *pairs, int64_t least);

/* Makes the two tokens one everywhere, in words from left to right. */
ls_status lsi_pairs_merge(lsi_pairs *pairs, uint32_t left, uint32_t right,
                          uint32_t whole);

#endif
