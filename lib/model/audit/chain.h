/*
 * An audit file: lines of JSON, each with a digest that covers the line and the
 * digest of the line before. docs/reference/files.md describes the lines.
 *
 *     header    {"lockstep audit": 1, "version", "settings", "digest"}
 *     run       {"run": {...}, "digest"}
 *     saved     {"saved": 57, "values", "state", "tensors", "digest"}
 *     entry     {"step": 60, "values", "state", "tensors", "digest"}
 *
 * A line's digest is the SHA-256 of the 64 digits before it in the chain and of
 * the line's bytes up to `,"digest"`. The chain consists of the header and the
 * entries. A line "run" or "saved" is a branch: its digest is that of a next
 * entry, and the entry after it does not depend on it. So the final digest does
 * not depend on the number of ranks, nor on when a run was interrupted.
 */
#ifndef LS_MODEL_AUDIT_CHAIN_H
#define LS_MODEL_AUDIT_CHAIN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sha256.h"
#include "lockstep/status.h"

typedef enum lsi_chain_kind {
    LSI_CHAIN_HEADER,
    LSI_CHAIN_RUN,
    LSI_CHAIN_SAVED,
    LSI_CHAIN_ENTRY
} lsi_chain_kind;

typedef struct lsi_chain_line {
    lsi_chain_kind kind;
    int64_t step; /* of an entry or a checkpoint; of other lines the next */
    char digest[LSI_SHA256_TEXT];
    const char *text; /* not terminated */
    size_t bytes;     /* with its newline */
} lsi_chain_line;

typedef struct lsi_chain {
    char *text; /* of the file */
    lsi_chain_line *lines;
    size_t n;
    size_t unfinished; /* bytes after the last newline: of a killed run */
} lsi_chain;

/*
 * Reads a file and checks its chain. LS_ERR_FORMAT names the first line that
 * was changed, removed or moved. Lines that a killed run has not finished are
 * left out. On success the chain is to be closed.
 */
ls_status lsi_chain_read(const char *path, lsi_chain *out);
void lsi_chain_close(lsi_chain *chain);

/* The line as JSON (json_decref); NULL without memory. */
json_t *lsi_chain_json(const lsi_chain_line *line);

/* The last line for a step, of an entry or a checkpoint; NULL: none. */
const lsi_chain_line *lsi_chain_find(const lsi_chain *chain, int64_t step);

/*
 * The digests that the last line of the chain and of the file have; `upto` is a
 * number of lines.
 */
const char *lsi_chain_digest(const lsi_chain *chain, size_t upto);

/*
 * The line for an object, which it releases, also without memory: after a line
 * of the chain with digest `before`, or "" for the header. *line is the
 * caller's (free), with a newline; `digest` is its digest.
 */
ls_status lsi_chain_seal(json_t *object, const char *before, char **line,
                         char digest[LSI_SHA256_TEXT]);

#endif
