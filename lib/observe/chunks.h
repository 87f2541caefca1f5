/*
 * The files of the recorder: of spans (span_file.h), of memory
 * (memory_events.h), and snapshots of memory. All have one form:
 *
 *     magic "LSTRACE2", then chunks: a letter, the length of what follows (32
 *     bits, little-endian), and this many bytes. Numbers in chunks are of
 *     variable length, seven bits a byte, the lowest first.
 *
 *     H  JSON: the process, and what its file holds (span_file.h); first, and
 *        again when the process knows its rank
 *     N  a name: its number, then its letters
 *     T  a thread: its number, then its name
 *     C  both clocks at one time: ticks, nanoseconds of the monotonic clock,
 *        nanoseconds since 1970
 *     E  spans of a thread (span_file.h)
 *     M  allocated and freed memory (memory_events.h)
 *     L  a line of /proc/self/maps
 *     Z  the end: number of spans in all, number of memory events
 *
 * All functions are called under the lock of the recorder.
 */
#ifndef LS_OBSERVE_CHUNKS_H
#define LS_OBSERVE_CHUNKS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

#define LSI_CHUNKS_MAGIC "LSTRACE2"
enum {
    LSI_CHUNKS_MAGIC_BYTES = 8,
    LSI_CHUNKS_VERSION = 2,
    LSI_CHUNK_BYTES = 1 << 16,
    LSI_NUMBER_BYTES = 10 /* of a number, at most */
};

typedef struct lsi_chunks lsi_chunks;
struct lsi_chunks {
    int fd;         /* -1: no file is open */
    int error;      /* errno of the first write that failed */
    uint64_t bytes; /* size of the file */
    /* Called ahead of each write with its number of bytes, or NULL. */
    void (*make_room)(const lsi_chunks *to, size_t bytes);
    uint32_t names_written;
    bool rank_written;
    size_t used; /* bytes of the chunk that is being made */
    unsigned char chunk[LSI_CHUNK_BYTES];
};

/*
 * Makes a file and begins it with the magic; false (errno). `fresh`: it
 * replaces what has the name; else the name may be that of a link.
 */
bool lsi_chunks_open(lsi_chunks *to, const char *path, bool fresh);

/* Closes it; false (errno): not all is stored. */
bool lsi_chunks_close(lsi_chunks *to);

/* Adds to the chunk that is being made, which has room for it. */
void lsi_chunk_number(lsi_chunks *to, uint64_t value);

/* A number with a sign, as a number without: "zigzag". */
static inline uint64_t lsi_zigzag(int64_t value)
{
    return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

/* Writes the chunk that was made, and begins an empty one. False (errno). */
bool lsi_chunk_write(lsi_chunks *to, char letter);

/*
 * Writes a header with the members of `more`, whose reference it takes. Other
 * members: the version, the run, the process and its rank.
 */
bool lsi_chunks_head(lsi_chunks *to, json_t *more);

/* Writes the names that the process has learnt since the last call. */
bool lsi_chunks_names(lsi_chunks *to);

/* Writes two numbers, as C and Z have them, or a number and a text. */
bool lsi_chunks_clock(lsi_chunks *to, lsi_instant at, uint64_t wall_ns);
bool lsi_chunks_end(lsi_chunks *to, uint64_t spans, uint64_t events);
bool lsi_chunks_text(lsi_chunks *to, char letter, uint32_t number,
                     const char *text);
bool lsi_chunks_line(lsi_chunks *to, char letter, const char *text, size_t n);

/* ---- the rank ------------------------------------------------------------ */

/* Sets the rank of this process for headers; false: it was already set. */
bool lsi_set_rank(int rank, int ranks, uint64_t job);

/* The rank that was set; -1 and 0 ranks: none yet. */
void lsi_get_rank(int32_t *rank, int32_t *ranks);

/* In a process that was forked: its rank is not its parent's. */
void lsi_forget_rank(void);

#endif
