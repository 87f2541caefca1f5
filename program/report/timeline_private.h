/*
 * Index of traces: a process of a timeline keeps an index of its chunks in
 * memory, and its spans stay in the files.
 */
#ifndef LS_REPORT_TIMELINE_PRIVATE_H
#define LS_REPORT_TIMELINE_PRIVATE_H

#include "report/timeline.h"

/* Consecutive spans of one thread in a file. */
typedef struct lsi_timeline_chunk {
    uint64_t at;    /* offset of the chunk's contents in its file */
    int64_t first;  /* ticks at the earliest beginning of its spans */
    uint32_t bytes; /* length of the contents */
    uint32_t n;     /* number of spans of kinds that are known */
    uint16_t kinds; /* 1 << kind of each of them */
    uint16_t file;  /* index of the file */
} lsi_timeline_chunk;

/* Both clocks at one time. */
typedef struct lsi_timeline_clock {
    int64_t ticks, ns;
} lsi_timeline_clock;

/* A group whose collectives were recorded, and when the first one began. */
typedef struct lsi_timeline_group {
    uint64_t group;
    int64_t first; /* ticks of the first beginning */
} lsi_timeline_group;

enum { LSI_TIMELINE_GROUPS = 64 }; /* of a process; others have no name */

struct lsi_timeline_source {
    char **files; /* paths */
    size_t n_files, file_room;
    lsi_timeline_chunk *chunks;
    size_t n_chunks, chunk_room;
    lsi_timeline_clock *clocks; /* two or more readings, in order */
    size_t n_clocks, clock_room;
    lsi_timeline_group groups[LSI_TIMELINE_GROUPS]; /* in order of `first` */
    size_t n_groups;
};

/* Bytes of one file. Begins as {.fd = -1}. */
typedef struct lsi_timeline_bytes {
    int fd;
    size_t file; /* index of the open file, if fd >= 0 */
    uint64_t size;
    unsigned char *buffer;
    size_t room;
} lsi_timeline_bytes;

/* Opens a file of the source to read it; LS_OK if it is open. */
ls_status lsi_timeline_bytes_open(const lsi_timeline_source *source,
                                  size_t file, lsi_timeline_bytes *bytes);

/*
 * Returns n bytes of the open file, until the next call; NULL (*status): they
 * cannot be read.
 */
const unsigned char *lsi_timeline_bytes_at(const lsi_timeline_source *source,
                                           lsi_timeline_bytes *bytes,
                                           uint64_t at, size_t n,
                                           ls_status *status);
void lsi_timeline_bytes_close(lsi_timeline_bytes *bytes);

/*
 * Reads the spans of a chunk that was indexed, in the order of the file and in
 * the time of the timeline. `spans` has room for chunk->n. LS_ERR_FORMAT: the
 * file has changed since.
 */
ls_status lsi_timeline_decode(const lsi_timeline_process *process,
                              const lsi_timeline_chunk *chunk,
                              lsi_timeline_bytes *bytes,
                              lsi_timeline_span *spans);

/* The time of the timeline at a process's number of ticks. */
int64_t lsi_timeline_time(const lsi_timeline_process *process, int64_t ticks);

/*
 * Adds a file, the next of its process, to *process, which is NULL for the
 * first. On failure *process is unchanged, or freed and NULL. LS_ERR_FORMAT if
 * the file is not a process's recording, or of another version.
 */
ls_status lsi_timeline_add_file(const char *path,
                                lsi_timeline_process **process);

/* Whether the files of a process form a trace; called after the last one. */
ls_status lsi_timeline_check(const lsi_timeline_process *process);

/* A file during reading. */
typedef struct lsi_timeline_reader {
    const char *path;
    const unsigned char *at, *end; /* position in the chunk, and its end */
    lsi_timeline_process *process;
    lsi_timeline_source *source;
    bool headed;
    size_t kinds; /* number of kinds that the header lists; 0: no list */
    bool later;   /* the trace has files before this one */
} lsi_timeline_reader;

/*
 * Reads a number in the format of chunks.h at r->at, which moves past it;
 * false: none.
 */
bool lsi_timeline_parse_number(lsi_timeline_reader *r, uint64_t *out);

ls_status lsi_timeline_no_memory(const lsi_timeline_reader *r);

/* ---- memory (memory_file.c) ---------------------------------------------- */

/* Takes M and L chunks of a process with r->process->memory. */
ls_status lsi_memory_begin(const lsi_timeline_reader *r);
ls_status lsi_memory_parse(lsi_timeline_reader *r);
ls_status lsi_memory_parse_map(const lsi_timeline_reader *r);

/* Compares the number of events that the end states. */
ls_status lsi_memory_check_end(const lsi_timeline_reader *r, uint64_t events);
void lsi_memory_forget(lsi_memory_file *file);

/* Earliest beginning of a span; INT64_MAX without any. */
int64_t lsi_timeline_first(const lsi_timeline_process *process);

#endif
