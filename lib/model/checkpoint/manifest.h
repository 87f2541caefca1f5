/*
 * The manifest of a checkpoint: JSON that lists its contents, and protects
 * itself with a checksum.
 *
 *     {"format": "lockstep checkpoint 1", "step": 123, "ranks": 2,
 *      "optimizer": {"kind": "adamw", "groups": [{"steps": 123,
 *          "state": ["exp_avg", "exp_avg_sq"], "parameters": ["fc.weight"]}]},
 *      "values": {"key": "value"},
 *      "files": [{"name": "model.safetensors", "bytes": 99, "crc32": 99}],
 *      "crc32": 99}
 *
 * The last crc32 is the checksum of all other fields, without blanks and with
 * sorted keys.
 */
#ifndef LS_MODEL_CHECKPOINT_MANIFEST_H
#define LS_MODEL_CHECKPOINT_MANIFEST_H

#include <jansson.h>

#include "base/atomic_file.h"
#include "lockstep/checkpoint.h"

/* The facts that a save knows when all files are written. */
typedef struct lsi_manifest {
    int64_t step;
    int ranks;
    const ls_optimizer *optimizer; /* or NULL */
    const char *const *values;     /* or NULL */
    lsi_file_sum model;
    const lsi_file_sum *rank_files;
} lsi_manifest;

/* Writes the folder's manifest atomically. */
ls_status lsi_manifest_write(const lsi_manifest *manifest, const char *folder);

/*
 * Reads the manifest of a step's folder. LS_ERR_FORMAT if it is missing,
 * damaged, of another version, or of another step than in the folder's name.
 * LS_ERR_IO and others if this cannot be determined. *out is the caller's
 * (json_decref).
 */
ls_status lsi_manifest_read(const char *folder, json_t **out);

/*
 * Checks that all files exist and are unchanged: LS_ERR_FORMAT names one that
 * is not; LS_ERR_IO and others if this cannot be determined.
 */
ls_status lsi_manifest_verify(const json_t *manifest, const char *folder);

int lsi_manifest_ranks(const json_t *manifest);

#endif
