/* The rules by which text is changed before it is divided into words. */
#ifndef LS_INPUT_TEXT_NORMALIZE_H
#define LS_INPUT_TEXT_NORMALIZE_H

#include "input/text/tokenizer.h"

/*
 * Appends a text, changed by the rules of the normalizer. `begins`: it is not
 * the continuation of a text that was divided.
 */
ls_status lsi_normalize(const struct ls_tokenizer *t, lsi_text text,
                        bool begins, lsi_bytes *out);

/*
 * Appends a text, changed by the pre_tokenizer. `first`: it is the beginning of
 * the whole text.
 */
ls_status lsi_prepare(const struct ls_tokenizer *t, lsi_text text, bool begins,
                      bool first, lsi_bytes *out);

/* Unicode's normal form C: whether this library is built with it. */
bool lsi_nfc_is_there(void);

/* Appends the normal form of valid UTF-8. */
ls_status lsi_nfc(lsi_text text, lsi_bytes *out);

/* Appends `text` with `to` in place of every `from`. */
ls_status lsi_replace(const lsi_rule *rule, lsi_text text, lsi_bytes *out);

#endif
