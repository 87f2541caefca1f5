/* Text to tokens. */
#ifndef LS_INPUT_TEXT_ENCODE_H
#define LS_INPUT_TEXT_ENCODE_H

#include "input/text/tokenizer.h"
#include "lockstep/data.h"

/* The state of one thread for encoding. */
typedef struct lsi_encoder lsi_encoder;

/* One for each of the rank's threads. */
typedef struct lsi_encoders {
    const struct ls_tokenizer *tokenizer;
    lsi_encoder **each;
    int n;
} lsi_encoders;

/*
 * For about `bytes` bytes of text. *out is freed by lsi_encoders_free, also
 * after an error.
 */
ls_status lsi_encoders_new(lsi_encoders *out,
                           const struct ls_tokenizer *tokenizer, size_t bytes);
void lsi_encoders_free(lsi_encoders *encoders);

/*
 * Appends the tokens of valid UTF-8, in parallel. `first`: it is the beginning
 * of a text, not a continuation from a place of lsi_text_cut.
 */
ls_status lsi_encode(lsi_encoders *encoders, lsi_text text, bool first,
                     lsi_ids *out);

/*
 * The first place from `from` on where a text can be divided so that its parts
 * become the tokens that the whole does; text.n if not found. `from` may be
 * inside a character, and the text need not be UTF-8.
 */
size_t lsi_text_cut(const struct ls_tokenizer *tokenizer, lsi_text text,
                    size_t from);

/*
 * Calls fn with each word of valid UTF-8 that would be encoded, on the calling
 * thread, by encoder `which`.
 */
typedef ls_status (*lsi_text_word_fn)(void *context, lsi_text word);
ls_status lsi_text_words(const lsi_encoders *encoders, int which, lsi_text text,
                         bool first, lsi_text_word_fn fn, void *context);

/*
 * The tokens of texts, of which each byte is one in `text`: those that
 * lsi_tokenize_files would write. *out is the caller's. Local.
 */
ls_status lsi_text_to_tokens(ls_tokens **out,
                             const struct ls_tokenizer *tokenizer,
                             const ls_tokens *text);

/* LS_ERR_FORMAT with the place if it is not valid UTF-8; `name` is the text. */
ls_status lsi_text_check(lsi_text text, size_t offset, const char *name);

#endif
