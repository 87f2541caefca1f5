/* Inside a sequence of tokens; see lockstep/data.h. */
#ifndef LS_INPUT_DATA_TOKENS_H
#define LS_INPUT_DATA_TOKENS_H

#include "input/data/dataset.h"
#include "lockstep/data.h"

typedef struct lsi_token_file {
    char *path; /* its own (lsi_free) */
    lsi_records records;
    const uint8_t *first; /* token, in them */
    int64_t begin;        /* where the first is in the sequence */
    int64_t count;
    size_t width; /* bytes of a token: 1, 2, 4, 8 */
} lsi_token_file;

struct ls_tokens {
    lsi_token_file *files; /* one or more */
    int64_t n_files;
    int64_t count;
    char name[64];
};

/* Opens the file of that path: its records, first, count and width. */
ls_status lsi_token_file_open(lsi_token_file *file, ls_token_format format);

/* A sequence of `count` tokens in memory, of undefined contents. */
ls_status lsi_tokens_in_memory(ls_tokens **out, const char *name, int64_t count,
                               size_t width);

#endif
