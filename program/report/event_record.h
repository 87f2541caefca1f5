/*
 * Records of the event files that TensorBoard reads. Each is a length, its
 * checksum, an Event in Protocol Buffers' encoding and its checksum. Of the
 * messages (tensorflow/core/util/event.proto and framework/summary.proto) only
 * the fields for scalars are supported.
 */
#ifndef LS_REPORT_EVENT_RECORD_H
#define LS_REPORT_EVENT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lockstep/status.h"

/* CRC-32C (Castagnoli), as in RFC 3720. */
uint32_t lsi_crc32c(const void *data, size_t bytes);

/*
 * Bytes ahead of and after the event of a record, and most bytes of a record.
 */
enum { LSI_EVENT_HEAD = 12, LSI_EVENT_TAIL = 4, LSI_EVENT_MOST = 4096 };

typedef struct lsi_scalar {
    const char *tag;
    double value; /* written as f32 */
} lsi_scalar;

/*
 * Writes a whole record to `out`, which has room for LSI_EVENT_MOST bytes, and
 * returns its length. `seconds` is the time since 1970. Scalars that do not fit
 * are left out.
 */
size_t lsi_event_put_version(unsigned char *out, double seconds);
size_t lsi_event_put_scalars(unsigned char *out, double seconds, int64_t step,
                             const lsi_scalar *scalars, size_t n);

/*
 * A record that a run begins at this step: readers discard this step and later
 * ones.
 */
size_t lsi_event_put_start(unsigned char *out, double seconds, int64_t step);

/*
 * Completes the record of an event of `bytes` bytes, which is already stored
 * after the space for the head.
 */
size_t lsi_event_put_frame(unsigned char *out, size_t bytes);

/* Progress of a resumed run; updated file by file, oldest first. */
typedef struct lsi_event_place {
    int64_t step; /* last step that counts */
    bool passed;  /* whether the scalars of this step were found */
} lsi_event_place;

/*
 * Bytes of the file's records that belong to steps up to the place. Records
 * after the scalars of its step, such as a validation, are not among them.
 *
 * The bytes end ahead of the first damaged or invalid record. *scalars: number
 * of records of scalars among them. LS_ERR_FORMAT for a file of another format.
 */
ls_status lsi_events_until(FILE *file, lsi_event_place *place, int64_t *bytes,
                           int64_t *scalars);

#endif
