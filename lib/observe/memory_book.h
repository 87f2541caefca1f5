/*
 * The state of a memory recording (memory_record.h): all live blocks, their
 * holders, and the names, paths and stacks that describe these. It belongs to
 * memory_record.c, under the lock.
 */
#ifndef LS_OBSERVE_MEMORY_BOOK_H
#define LS_OBSERVE_MEMORY_BOOK_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/profile.h"
#include "observe/memory_events.h"
#include "observe/trails.h"

/* Numbers of names + 1 (phase, operation, what) and of trails; 0: none. */
typedef struct lsi_memory_owner {
    uint32_t phase, path, operation, what, stack;
} lsi_memory_owner;

/* A block that is in use. */
typedef struct lsi_memory_held {
    struct lsi_memory_held *next;
    const void *block;
    uint64_t id;
    size_t bytes;
    ls_memory_tag tag;
    bool kept; /* it is a pool's */
    lsi_memory_owner owner;
} lsi_memory_held;

typedef struct lsi_memory_book {
    uint32_t recording; /* its number: 1, 2, ... */
    uint64_t began_ns, last_id;
    lsi_trails trails;
    lsi_memory_held **buckets;
    size_t n_buckets, n_held;
    int64_t live[LS_MEMORY_TAG_COUNT];
    int64_t anonymous[LS_MEMORY_TAG_COUNT]; /* of that: of no block known */
    size_t kept, kept_in_use;               /* of pools */
    int64_t most_in_use;                    /* since it was last reset */
    lsi_memory_log *log;                    /* the file, or NULL */
    size_t snapshot_above;
    char snapshot_path[PATH_MAX]; /* "": none is asked for */
} lsi_memory_book;

extern lsi_memory_book lsi_memory_books;

/* Nanoseconds since the recording began. */
uint64_t lsi_memory_book_time(void);

/*
 * The number of a trail, which is written to the file when it is new; 0 if
 * nothing is recorded.
 */
uint32_t lsi_memory_book_trail(lsi_trail trail);

/* The number of a name + 1. */
uint32_t lsi_memory_book_name(const char *name, const char *suffix);

/* Enters a block; NULL without memory. */
lsi_memory_held *lsi_memory_book_add(lsi_memory_held value);

/* The link to a block, or NULL. Remove unlinks and frees the block. */
lsi_memory_held **lsi_memory_book_find(const void *block);
void lsi_memory_book_remove(lsi_memory_held **at);

/* All that is live, what pools keep included. */
size_t lsi_memory_book_live(void);

/* Live bytes without unused memory of pools. Note_peak keeps their maximum. */
int64_t lsi_memory_book_in_use(void);
void lsi_memory_book_note_peak(void);

/* Writes the event of an allocated block. */
void lsi_memory_book_write(lsi_memory_log *to, const lsi_memory_held *held,
                           uint64_t time);

/* Writes all that is live; 0, or errno. The name is that of a whole file. */
int lsi_memory_book_snapshot(const char *path);

/* Writes the requested snapshot if its condition holds. */
void lsi_memory_book_snapshot_if_due(bool refused);

/* ". In use by part: ...", or nothing. */
void lsi_memory_book_holders(char *out, size_t room);

void lsi_memory_book_forget(void);

#endif
