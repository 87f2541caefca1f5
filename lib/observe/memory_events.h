/*
 * Events of memory, as they stand in M chunks (chunks.h) of a recording or a
 * snapshot. An event is a byte, its kind, and this many numbers:
 *
 *     PATH           parent (0: none), name: a trail of ranges, with one more
 *     CALL           parent, address: a trail of calls, with one more
 *     INITIAL        tag, bytes (zigzag): live when the recording began
 *     KEPT_NOW       time, bytes: what pools have, in use or not, from now on
 *     TAKEN          id, time, bytes, tag, phase, path, operation, what, stack
 *     TAKEN_OF_POOL  the same, of a pool's memory
 *     OPERATION      name, n, and n ids: the operation of what has been taken
 *     GIVEN          id, time: given back
 *     COUNTED        time, tag, bytes (zigzag): memory without an address
 *     REFUSED        time, bytes: an allocation that needs this many live bytes
 *
 * Trails (trails.h) have the numbers 1, 2, ... in their order; path and stack
 * are such numbers. Phase, operation, what and a range's name are numbers of
 * names (chunks.h) + 1. 0 is none. Times are nanoseconds since the first clock
 * of the file. A snapshot has what is live then and no time in it. The header
 * has the names of tags ("memory").
 */
#ifndef LS_OBSERVE_MEMORY_EVENTS_H
#define LS_OBSERVE_MEMORY_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "observe/chunks.h"

/* X(NAME, numbers, counts): those without `counts` are not in the end's sum. */
#define LSI_MEMORY_EVENT_LIST(X)                                               \
    X(PATH, 2, false)                                                          \
    X(CALL, 2, false)                                                          \
    X(INITIAL, 2, false)                                                       \
    X(KEPT_NOW, 2, true)                                                       \
    X(TAKEN, 9, true)                                                          \
    X(TAKEN_OF_POOL, 9, true)                                                  \
    X(OPERATION, 2, false)                                                     \
    X(GIVEN, 2, true)                                                          \
    X(COUNTED, 3, true)                                                        \
    X(REFUSED, 2, true)

typedef enum lsi_memory_event {
#define X(NAME, numbers, counts) LSI_MEMORY_##NAME,
    LSI_MEMORY_EVENT_LIST(X)
#undef X
        LSI_MEMORY_EVENTS
} lsi_memory_event;

enum {
    LSI_MEMORY_NUMBERS = 9,
    LSI_MEMORY_FRAMES = 32,
    LSI_MEMORY_CLAIMS = 128
};

/* Numbers of an event, and whether the end counts it. */
typedef struct lsi_memory_form {
    uint8_t numbers;
    bool counts;
} lsi_memory_form;

extern const lsi_memory_form lsi_memory_forms[LSI_MEMORY_EVENTS];

typedef struct lsi_memory_log lsi_memory_log;

/*
 * A file that begins at that time; NULL (errno): it cannot be made. `fresh`: as
 * in lsi_chunks_open.
 */
lsi_memory_log *lsi_memory_log_open(const char *path, bool fresh,
                                    lsi_instant at);

/* Writes the header again, when the process has learnt its rank. */
void lsi_memory_log_head(lsi_memory_log *log);

/*
 * Adds an event: its numbers, then n further ones. Nothing for NULL. A write
 * that fails shows when the file is closed.
 */
void lsi_memory_log_add(lsi_memory_log *log, lsi_memory_event event,
                        const uint64_t *numbers, const uint64_t *more,
                        size_t n);

/* The same of an event with a fixed number of numbers. */
#define LSI_MEMORY_WRITE(log, EVENT, ...)                                      \
    lsi_memory_log_add(log, LSI_MEMORY_##EVENT, (uint64_t[]){__VA_ARGS__},     \
                       NULL, 0)

/*
 * Ends and closes it: 0, or errno of what has failed since it was opened. Sets
 * *log to NULL; accepts NULLs.
 */
int lsi_memory_log_close(lsi_memory_log **log);

/* In a process that has been forked: closes it and writes nothing. */
void lsi_memory_log_forget(lsi_memory_log **log);

#endif
