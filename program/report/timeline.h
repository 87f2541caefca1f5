/*
 * The recorded spans of a run's processes (observe/spans.h), read from their
 * files (observe/span_file.h): one timeline on one clock.
 *
 * Processes of one machine share its monotonic clock. Between machines the
 * offset follows from the collectives. No rank can continue before the last
 * rank has begun, so each common collective limits the offset from both sides.
 * The gap between the largest lower and the smallest upper bound is twice the
 * error.
 */
#ifndef LS_REPORT_TIMELINE_H
#define LS_REPORT_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lockstep/status.h"
#include "observe/spans.h"

/* One span. Times in nanoseconds of the timeline. */
typedef struct lsi_timeline_span {
    int64_t begin, end;
    uint64_t bytes, work, id;
    uint32_t name; /* name, numbered by the process */
    uint16_t thread;
    uint8_t kind;
} lsi_timeline_span;

/* The files of a process, and an index of them (timeline_private.h). */
typedef struct lsi_timeline_source lsi_timeline_source;

/* A memory recording (memory_file.h). */
typedef struct lsi_memory_file lsi_memory_file;

/* One process. It owns its texts; its spans stay in its files. */
typedef struct lsi_timeline_process {
    int rank, size; /* -1, 0: it was not a rank */
    int pid;
    char *host, *boot, *job, *version;
    char *isa;     /* level of instructions; "": an older trace */
    int computing; /* threads that computed products; 0: not known */
    char **names;  /* NULL where a number has no name */
    size_t n_names;
    char **threads;
    size_t n_threads;
    size_t n;                 /* number of spans */
    lsi_timeline_span *spans; /* NULL before lsi_timeline_load; in the order of
                                 lsi_timeline_order */
    lsi_timeline_source *source;
    lsi_memory_file *memory; /* NULL: the process has not recorded its memory */
    uint64_t missing;        /* spans that made room for later ones */
    uint64_t first_missing;  /* their steps; 0: none with a mark */
    uint64_t last_missing;
    uint64_t seen;   /* spans in the files, unknown kinds included */
    uint64_t lost;   /* spans of files that are missing or cut off */
    bool whole;      /* normal end; else the data up to there are valid */
    bool aligned;    /* the offset below comes from collectives */
    int64_t offset;  /* ns added to its machine's clock */
    int64_t error;   /* largest error of the offset in ns; 0 on the first
                        process's machine */
    int64_t wall_ns; /* ns since 1970 at the zero of its clock */
} lsi_timeline_process;

typedef struct lsi_timeline {
    lsi_timeline_process **process; /* processes in the order of their ranks */
    size_t n;
    int64_t begin;     /* first span's beginning; zero of the output */
    size_t most_parts; /* parts of collectives kept in memory at a time while
                          they are joined; 0: the usual number */
} lsi_timeline;

void lsi_timeline_process_free(lsi_timeline_process **process);

/*
 * Opens all traces of a folder on one clock and checks each of their spans,
 * which stay in the files. LS_ERR_NOT_FOUND without traces, LS_ERR_ARGUMENT if
 * they are of several runs.
 */
ls_status lsi_timeline_read(const char *folder, lsi_timeline **out);
void lsi_timeline_free(lsi_timeline **timeline);

/* ---- spans --------------------------------------------------------------- */

/* The order of beginnings; outer spans come before inner ones. For qsort. */
int lsi_timeline_order(const void *a, const void *b);

/*
 * Reads the spans of a process in this order. Needs memory for the chunks (64
 * KiB of file each) that overlap at one time, not for the whole file.
 */
typedef struct lsi_timeline_cursor lsi_timeline_cursor;
ls_status lsi_timeline_cursor_open(const lsi_timeline_process *process,
                                   lsi_timeline_cursor **out);

/* *out is the next span, valid until the next call; NULL after the last one. */
ls_status lsi_timeline_cursor_next(lsi_timeline_cursor *cursor,
                                   const lsi_timeline_span **out);
void lsi_timeline_cursor_close(lsi_timeline_cursor **cursor);

/*
 * Calls `take` with each span whose kind is in `kinds` (1 << LSI_SPAN_STEP,
 * ...) in any order, until it returns another status than LS_OK.
 */
typedef ls_status lsi_timeline_taker(void *context,
                                     const lsi_timeline_span *span);
ls_status lsi_timeline_scan(const lsi_timeline_process *process, unsigned kinds,
                            lsi_timeline_taker *take, void *context);

/* Reads all spans of a process into process->spans; for small traces. */
ls_status lsi_timeline_load(lsi_timeline_process *process);

/* The name of a span; never NULL. */
const char *lsi_timeline_name(const lsi_timeline_process *process,
                              const lsi_timeline_span *span);

/*
 * Prints warnings for readers, such as "rank 1 has not ended well ...", one in
 * each line.
 */
void lsi_timeline_warn(const lsi_timeline *timeline, FILE *stream);

/* ---- what it is written as ----------------------------------------------- */

/*
 * Writes Chrome's trace event format (JSON), which Perfetto and
 * chrome://tracing open. It has a process for each rank, with a row for each
 * thread and for each group. Flows join the parts of collectives. Counters show
 * the memory in use.
 */
ls_status lsi_timeline_chrome(const lsi_timeline *timeline, FILE *stream);

#endif
