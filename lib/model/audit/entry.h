/*
 * Entries of an audit file as JSON (docs/reference/files.md): making one from a
 * digest of the state, and finding the first difference of two.
 *
 *     {"step": 20, "values": {"seed": "0"}, "state": "<64 digits>",
 *      "tensors": {"w": [count, "<16 digits>", "<8 digits of each block>"]}}
 */
#ifndef LS_MODEL_AUDIT_ENTRY_H
#define LS_MODEL_AUDIT_ENTRY_H

#include <jansson.h>

#include "model/audit/chain.h"
#include "model/audit/state_digest.h"

/*
 * On rank 0. `key` names the step: "step", or "saved" for a checkpoint's. The
 * values are pairs, NULL-terminated, or NULL. *out is the caller's
 * (json_decref).
 */
ls_status lsi_entry_new(const lsi_state_digest *digest, const char *key,
                        int64_t step, const char *const *values, json_t **out);

/* Objects of pairs of texts, as above. NULL without memory. */
json_t *lsi_entry_pairs(const char *const *pairs);

/*
 * Whether two entries have the same values and state. If not, `text` describes
 * the first difference: the value, or the tensor, the block and its elements.
 */
typedef struct lsi_difference {
    char text[512];
} lsi_difference;
bool lsi_entry_equal(const json_t *one, const json_t *other,
                     lsi_difference *out);

/* The same of two objects of texts, named "settings" or "values". */
bool lsi_entry_same_pairs(const json_t *one, const json_t *other,
                          const char *what, lsi_difference *out);

/* The same of a file's settings and others. */
bool lsi_entry_same_settings(const lsi_chain *chain, const json_t *settings,
                             lsi_difference *out);

#endif
