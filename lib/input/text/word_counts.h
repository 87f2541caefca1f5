/* How often words occur in texts. */
#ifndef LS_INPUT_TEXT_WORD_COUNTS_H
#define LS_INPUT_TEXT_WORD_COUNTS_H

#include "input/text/buffers.h"
#include "input/text/corpus.h"

typedef struct lsi_counted {
    size_t begin; /* in the pool */
    uint32_t n;   /* bytes */
    uint32_t hash;
    int64_t count;
} lsi_counted;

typedef struct lsi_word_counts {
    lsi_bytes pool;
    lsi_counted *words;
    size_t n, room;
    uint32_t *slots; /* 1 + index of the word, by its hash */
    size_t mask;
} lsi_word_counts;

/* LS_ERR_MEMORY: the texts have too many of `what`. */
ls_status lsi_too_much_text(const char *what);

/* All zeros has no words. */
void lsi_word_counts_free(lsi_word_counts *counts);

/*
 * Adds all words of a corpus as the tokenizer divides it, on all threads of all
 * ranks. Collective; all ranks get the same words, in an order that may differ
 * between ranks.
 */
ls_status lsi_word_counts_of(lsi_word_counts *out, ls_group *group,
                             const struct ls_tokenizer *t,
                             const lsi_corpus *corpus);

#endif
