/* The tokens of a tokenizer: their texts by number, their numbers by text. */
#ifndef LS_INPUT_TEXT_VOCABULARY_H
#define LS_INPUT_TEXT_VOCABULARY_H

#include "input/text/buffers.h"

/* No token. */
#define LSI_NO_TOKEN UINT32_MAX

enum {
    LSI_TOKEN_THERE = 1,   /* else the number is not in use */
    LSI_TOKEN_SPECIAL = 2, /* stands for no text */
    LSI_TOKEN_ADDED = 4,   /* found in text before it is split into words */
    LSI_TOKEN_BYTE = 8,    /* its text is one byte, any: byte_fallback */
    /* Numbers of tokens are below: a file cannot ask for any memory. */
    LSI_MAX_TOKENS = 1 << 22
};

typedef struct lsi_token {
    uint32_t content, content_n; /* where in the pool: as in tokenizer.json */
    uint32_t text, text_n;       /* as decoded */
    uint8_t flags;
} lsi_token;

typedef struct lsi_vocabulary {
    lsi_bytes pool;
    lsi_token *tokens; /* by number */
    size_t n;
    uint32_t *slots; /* 1 + number, by hash of the content */
    size_t mask;
} lsi_vocabulary;

void lsi_vocabulary_free(lsi_vocabulary *vocabulary);

/* Room for the numbers below n <= LSI_MAX_TOKENS, none of them in use. */
ls_status lsi_vocabulary_new(lsi_vocabulary *vocabulary, size_t n);

/*
 * Sets the text in tokenizer.json of a number below n that is not in use. Of
 * two with the same content the first is found.
 */
ls_status lsi_vocabulary_add(lsi_vocabulary *vocabulary, uint32_t id,
                             lsi_text content, uint8_t flags);

/* Sets the text to which a token decodes. */
ls_status lsi_vocabulary_set_text(lsi_vocabulary *vocabulary, uint32_t id,
                                  lsi_text text);

lsi_text lsi_vocabulary_content(const lsi_vocabulary *vocabulary, uint32_t id);
lsi_text lsi_vocabulary_text(const lsi_vocabulary *vocabulary, uint32_t id);

/* The token with that content; LSI_NO_TOKEN if not found. */
uint32_t lsi_vocabulary_find(const lsi_vocabulary *vocabulary,
                             lsi_text content);

#endif
