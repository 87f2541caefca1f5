/*
 * The file of a memory recording: text, a line each.
 *
 *     lockstep memory 1
 *     h JSON                what process this is, and the kinds of memory;
 *                           again when it has learnt its rank
 *     n NUMBER TEXT         a name
 *     p NUMBER PARENT NAME  a path of ranges; parent 0: none
 *     s NUMBER PC PC ...    a stack of calls, the innermost first (hex)
 *     i KIND BYTES          live when the recording began
 *     k TIME BYTES          what pools have, in use or not, from now on
 *     + ID TIME BYTES KIND PHASE PATH OPERATION WHAT STACK
 *                           taken; phase, operation and what are names
 *     t ...                 the same, of a pool
 *     o NAME ID ID ...      the operation of what has been taken
 *     - ID TIME             given back
 *     c TIME KIND BYTES     memory without an address: more, or less
 *     r TIME BYTES          an allocation was refused that needed so much live
 *     m LINE                of /proc/self/maps
 *     z EVENTS              the end; k, +, t, -, c and r are events
 *
 * Numbers of names, paths and stacks are of one sequence; 0 is none. Times are
 * nanoseconds since the recording began. A snapshot has the same form, with
 * what is live then and no time in it.
 */
#ifndef LS_OBSERVE_MEMORY_LINES_H
#define LS_OBSERVE_MEMORY_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LSI_MEMORY_MAGIC "lockstep memory "
enum { LSI_MEMORY_VERSION = 1, LSI_MEMORY_FRAMES = 32 };

typedef struct lsi_memory_lines {
    int fd;
    int error; /* errno of the first write that failed; no more are tried */
    uint64_t events;
    size_t used;
    char bytes[1 << 16];
} lsi_memory_lines;

/*
 * A file that begins; NULL (errno) if it cannot be made. `fresh`: it replaces
 * what has the name; else it may be a link to a file.
 */
lsi_memory_lines *lsi_memory_lines_open(const char *path, bool fresh);

/* Says again what process this is, when there is more to say. */
void lsi_memory_lines_head(lsi_memory_lines *lines);

/* Adds to it; at most LSI_MEMORY_LINE bytes. */
enum { LSI_MEMORY_LINE = 4096 };
void lsi_memory_lines_add(lsi_memory_lines *lines, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same of a line that is an event. */
void lsi_memory_lines_event(lsi_memory_lines *lines, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Ends and closes it: 0, or errno of what has failed since it was opened. Sets
 * *lines to NULL; accepts NULLs.
 */
int lsi_memory_lines_close(lsi_memory_lines **lines);

/* In a process that has been forked: closes it and writes nothing. */
void lsi_memory_lines_forget(lsi_memory_lines **lines);

#endif
