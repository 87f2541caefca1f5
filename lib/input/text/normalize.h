/* The rules by which text is changed before it is divided into words. */
#ifndef LS_INPUT_TEXT_NORMALIZE_H
#define LS_INPUT_TEXT_NORMALIZE_H

#include "input/text/tokenizer.h"

/*
 * Appends what the rules of the normalizer make of a text. `begins` says that
 * it is no continuation of one that was divided.
 */
ls_status lsi_normalize(const struct ls_tokenizer *t, lsi_text text,
                        bool begins, lsi_bytes *out);

/*
 * The same for what the pre_tokenizer changes; `first` says that it is the
 * beginning of the whole text.
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
