/*
 * Inside a tokenizer; see lockstep/tokenizer.h.
 *
 * Text becomes tokens in the steps of Hugging Face's `tokenizers`. Added tokens
 * are taken out of the text (added.h). The rest is normalised (rules) and
 * divided into words (split.h). Then the characters of each word are merged
 * (merges.h).
 */
#ifndef LS_INPUT_TEXT_TOKENIZER_H
#define LS_INPUT_TEXT_TOKENIZER_H

#include "input/text/added.h"
#include "input/text/merges.h"
#include "input/text/split.h"
#include "input/text/vocabulary.h"
#include "lockstep/tokenizer.h"

enum { LSI_MAX_STEPS = 8, LSI_MAX_RULES = 8, LSI_MAX_AROUND = 8 };

/* A short text, stored in place. */
typedef struct lsi_word {
    size_t n;
    uint8_t at[32];
} lsi_word;

static inline lsi_text lsi_word_text(const lsi_word *word)
{
    return (lsi_text){word->at, word->n};
}

/* Every `from` becomes `to`; if `from` is empty, `to` goes before the text. */
typedef struct lsi_rule {
    lsi_word from, to;
    bool nfc; /* the normal form instead */
} lsi_rule;

/* Where a text may be divided, so that the parts can be encoded apart. */
typedef enum lsi_cutting {
    LSI_CUT_NOWHERE,
    LSI_CUT_BEHIND_LETTERS, /* before white space */
    LSI_CUT_BEFORE_BLANKS   /* before ' ' after anything else */
} lsi_cutting;

/* When the mark of a blank goes before a text that does not begin with it. */
typedef enum lsi_prefix {
    LSI_PREFIX_NEVER,
    LSI_PREFIX_FIRST, /* at the beginning of the whole text */
    LSI_PREFIX_ALWAYS /* after each added token, too */
} lsi_prefix;

typedef struct lsi_decoding {
    bool joined_by_blanks; /* no decoder */
    lsi_word mark;         /* left out of the first token */
    size_t strip;          /* blanks at the beginning that are left out */
} lsi_decoding;

struct ls_tokenizer {
    lsi_bytes source; /* its tokenizer.json, with a zero after it */
    lsi_vocabulary vocabulary;
    lsi_merges merges;
    uint8_t *classes; /* of characters */
    uint64_t digest;
    int64_t end;

    lsi_added added;      /* looked for in text as it is */
    lsi_added normalized; /* and after the rules */
    lsi_rule rules[LSI_MAX_RULES];
    size_t n_rules, n_normal; /* those from n_normal on go after `normalized` */
    lsi_word prefix;
    lsi_prefix prefix_when;
    lsi_splitter steps[LSI_MAX_STEPS];
    size_t n_steps;
    lsi_cutting cut;

    bool byte_level;     /* characters of words are bytes (byte_level.h) */
    uint32_t bytes[256]; /* the tokens of single bytes, or LSI_NO_TOKEN */
    bool byte_fallback;  /* they stand for characters without a token */
    bool fuse_unknown, ignore_merges;
    uint32_t unknown;

    uint32_t before[LSI_MAX_AROUND], after[LSI_MAX_AROUND];
    size_t n_before, n_after;
    lsi_decoding decoding;
};

/*
 * As ls_tokenizer_open, from the text of a tokenizer.json and the token that
 * ends a text (-1: as its name says). `name` is for errors.
 */
ls_status lsi_tokenizer_of_text(ls_tokenizer **out, const char *name,
                                const char *text, int64_t end);

/* Its tokens are the 256 bytes: the number of each is its value. */
ls_status lsi_tokenizer_new_bytes(ls_tokenizer **out);

#endif
