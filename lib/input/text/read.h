/* Making a tokenizer of the JSON of a tokenizer.json. */
#ifndef LS_INPUT_TEXT_READ_H
#define LS_INPUT_TEXT_READ_H

#include <jansson.h>

#include "input/text/read_json.h"
#include "input/text/tokenizer.h"

/*
 * Fills a tokenizer of zeros; *out is the caller's to free, also after an
 * error. `path` is for errors.
 */
ls_status lsi_tokenizer_read(struct ls_tokenizer *out, const char *path,
                             const json_t *root);

/* As lsi_tokenizer_read does: its added_tokens and its model. */
ls_status lsi_read_tokens(struct ls_tokenizer *t, const char *path,
                          const json_t *root);

/* Its normalizer and pre_tokenizer, its post_processor, its decoder. */
ls_status lsi_read_splitting(struct ls_tokenizer *t, const char *path,
                             const json_t *root);
ls_status lsi_read_around(struct ls_tokenizer *t, const char *path,
                          const json_t *root);
ls_status lsi_read_decoder(struct ls_tokenizer *t, const char *path,
                           const json_t *root);

/* Added tokens, to be found in text; read after the normalizer. */
ls_status lsi_read_added(struct ls_tokenizer *t, const char *path,
                         const json_t *root);

/* A tokenizer.json of GPT-2's two files; *out is the caller's. */
ls_status lsi_read_gpt2(const char *vocabulary, const char *merges,
                        json_t **out);

/*
 * A tokenizer.json for bytes, of a vocabulary, a list of merges and added
 * tokens, which it takes over, also if it fails. The pattern is that of GPT-2
 * or of Llama 3.
 */
ls_status lsi_read_compose(json_t *vocab, json_t *merges, json_t *added,
                           lsi_split_kind pattern, json_t **out);

/* LS_ERR_MEMORY */
ls_status lsi_read_no_memory(void);

/* An entry of added_tokens for a special token; NULL without memory. */
json_t *lsi_read_special(const char *content, json_int_t id);

/*
 * A tokenizer of such a JSON, which it takes over, also if it fails; `path` is
 * for errors.
 */
ls_status lsi_tokenizer_of_json(struct ls_tokenizer **out, const char *path,
                                json_t *root);

#endif
