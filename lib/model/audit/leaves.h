/*
 * SHA-256 of the leaves of a state, several at a time.
 *
 * In one digest each instruction waits for the one before, so a processor's
 * SHA unit is idle most of the time. LSI_LANES digests side by side keep it
 * busy. The instructions need x86; elsewhere, and with LOCKSTEP_ISA=ref, all
 * leaves are left to lsi_sha256.
 */
#ifndef LS_MODEL_AUDIT_LEAVES_H
#define LS_MODEL_AUDIT_LEAVES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/sha256.h"

enum { LSI_LANES = 3, LSI_LANE_BLOCK = 64 };

typedef struct lsi_lanes {
    const unsigned char *data[LSI_LANES];
    unsigned char *digest[LSI_LANES]; /* [LSI_SHA256_BYTES] each */
} lsi_lanes;

/* Whether this process may call lsi_sha256_lanes. */
bool lsi_lanes_are_there(void);

/* `bytes` of each lane: a multiple of LSI_LANE_BLOCK. */
void lsi_sha256_lanes(const lsi_lanes *lanes, size_t bytes);

#endif
