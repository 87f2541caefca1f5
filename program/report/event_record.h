/*
 * Records of the event files that TensorBoard reads: each is a length, its
 * checksum, an Event in Protocol Buffers' encoding and its checksum. Of the
 * messages (tensorflow/core/util/event.proto and framework/summary.proto) only
 * what scalars need.
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

/* Bytes before and behind the event of a record, and the most of all. */
enum { LSI_EVENT_HEAD = 12, LSI_EVENT_TAIL = 4, LSI_EVENT_MOST = 4096 };

typedef struct lsi_scalar {
    const char *tag;
    double value; /* written as f32 */
} lsi_scalar;

/*
 * A whole record at `out`, which has room for LSI_EVENT_MOST bytes; returns
 * its length. `seconds` is the time since 1970. Scalars that do not fit are
 * left out.
 */
size_t lsi_event_put_version(unsigned char *out, double seconds);
size_t lsi_event_put_scalars(unsigned char *out, double seconds, int64_t step,
                             const lsi_scalar *scalars, size_t n);

/* That a run begins at this step: readers forget what they have of it and
 * later. */
size_t lsi_event_put_start(unsigned char *out, double seconds, int64_t step);

/* Makes a record of an event of so many bytes that is there, behind its head.
 */
size_t lsi_event_put_frame(unsigned char *out, size_t bytes);

/* How far a run has come that goes on; over its files, oldest first. */
typedef struct lsi_event_place {
    int64_t step; /* the last one that counts */
    bool passed;  /* its scalars were there */
} lsi_event_place;

/*
 * The bytes of the file's records that belong to steps up to the place: what a
 * step that counts has left, but not what was told after it, such as a
 * validation. They end before the first record that is damaged or none.
 * *scalars: how many records of scalars are in them. A file of another format
 * is LS_ERR_FORMAT.
 */
ls_status lsi_events_until(FILE *file, lsi_event_place *place, int64_t *bytes,
                           int64_t *scalars);

#endif
