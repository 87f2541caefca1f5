/*
 * Text files to one file of tokens, in llm.c's format: 256 little-endian 32-bit
 * numbers, of which the first three are 20240520, 1 and the number of tokens
 * for u16, or 20240801, 7 and their number for u32; then the tokens.
 */
#ifndef LS_INPUT_TEXT_TOKEN_FILE_H
#define LS_INPUT_TEXT_TOKEN_FILE_H

#include "lockstep/group.h"
#include "lockstep/tokenizer.h"

typedef struct lsi_tokenize_job {
    const ls_tokenizer *tokenizer;
    const char *const *paths; /* of texts; the same on all ranks */
    size_t n;
    const char *out;
    bool special;    /* with the tokenizer's tokens around each text */
    bool end_tokens; /* with ls_tokenizer_end after each text */
    uint32_t most;   /* tokens in the file; 0: UINT32_MAX, the format's limit */
    /* Called on rank 0 with the number of finished bytes; or NULL. */
    void (*progress)(void *context, size_t done, size_t all);
    void *context;
} lsi_tokenize_job;

typedef struct lsi_tokenize_result {
    uint64_t bytes, tokens;
    size_t width; /* bytes of a token: 2, or 4 if they are more than 65536 */
} lsi_tokenize_result;

/*
 * Encodes on all threads of all ranks; rank 0 writes the file, which appears
 * whole or not at all, and is the same for any number of ranks. Only rank 0
 * needs to see where it goes. More tokens than the file can have are
 * LS_ERR_FORMAT in the round that exceeds the limit. Collective; *out is the
 * same on all ranks.
 */
ls_status lsi_tokenize_files(ls_group *group, const lsi_tokenize_job *job,
                             lsi_tokenize_result *out);

#endif
