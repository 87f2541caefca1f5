/* JSON Lines: one object in each line, appended during the work. */
#ifndef LS_REPORT_JSONL_H
#define LS_REPORT_JSONL_H

#include <jansson.h>
#include <stdint.h>

#include "lockstep/status.h"

typedef struct lsi_jsonl lsi_jsonl;

/*
 * Opens a file ("-": standard output) for lines. Its first `keep` lines stay,
 * later ones are dropped; fewer lines are a warning. *out is the caller's.
 */
ls_status lsi_jsonl_open(lsi_jsonl **out, const char *path, int64_t keep);

/*
 * Writes one line in one piece, so that a reader that follows the file sees
 * whole lines. Takes over the reference to `object`; NULL is LS_ERR_MEMORY.
 */
ls_status lsi_jsonl_write(lsi_jsonl *lines, json_t *object);

/* Accepts NULL and a pointer to NULL. Sets *lines to NULL. */
void lsi_jsonl_close(lsi_jsonl **lines);

#endif
