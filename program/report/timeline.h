/*
 * What the processes of a run have recorded (observe/spans.h), as read from
 * their files (observe/span_file.h): one timeline on one clock.
 *
 * Processes of one machine share its monotonic clock. Between machines the
 * offset follows from the collectives: none can go on before the last rank has
 * begun it, so each one that ranks of both have taken part in says how large
 * and how small the offset can be. What is left between the largest lower and
 * the smallest upper bound is twice the error.
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
    uint32_t name; /* of its process */
    uint16_t thread;
    uint8_t kind;
} lsi_timeline_span;

/* Where its files are, and an index of them (timeline_private.h). */
typedef struct lsi_timeline_source lsi_timeline_source;

/* Memory that was recorded (memory_file.h). */
typedef struct lsi_memory_file lsi_memory_file;

/* One process. Texts belong to it; its spans stay in its files. */
typedef struct lsi_timeline_process {
    int rank, size; /* -1, 0: it was no rank */
    int pid;
    char *host, *boot, *job, *version;
    char **names; /* NULL where there is none */
    size_t n_names;
    char **threads;
    size_t n_threads;
    size_t n;                 /* spans */
    lsi_timeline_span *spans; /* NULL, unless lsi_timeline_load was called; in
                                 the order of lsi_timeline_order */
    lsi_timeline_source *source;
    lsi_memory_file *memory; /* NULL: it has not recorded its memory */
    uint64_t missing;        /* spans that made room for later ones, and the */
    uint64_t first_missing; /* steps that they are of; 0: of none with a mark */
    uint64_t last_missing;
    uint64_t seen;   /* spans in the files, unknown kinds included */
    uint64_t lost;   /* spans of files that are gone or cut off */
    bool whole;      /* it has ended well; else what is there is good */
    bool aligned;    /* the offset below comes from collectives */
    int64_t offset;  /* that was added to its machine's clock */
    int64_t error;   /* of that, at most; 0 on the machine of the first */
    int64_t wall_ns; /* since 1970, when its clock was 0 */
} lsi_timeline_process;

typedef struct lsi_timeline {
    lsi_timeline_process **process; /* in order of their ranks */
    size_t n;
    int64_t begin; /* of the first span; times begin there in what is written */
    size_t most_parts; /* parts of collectives to keep in memory at a time when
                          they are joined; 0: the usual number */
} lsi_timeline;

void lsi_timeline_process_free(lsi_timeline_process **process);

/*
 * Opens all traces of a folder, on one clock, and checks each of their spans,
 * which stay in the files. LS_ERR_NOT_FOUND if there are none, LS_ERR_ARGUMENT
 * if they are of several runs.
 */
ls_status lsi_timeline_read(const char *folder, lsi_timeline **out);
void lsi_timeline_free(lsi_timeline **timeline);

/* ---- spans --------------------------------------------------------------- */

/* The order of beginnings; outer spans come before those in them. For qsort. */
int lsi_timeline_order(const void *a, const void *b);

/*
 * Reads the spans of a process in that order. Needs memory for the chunks (64
 * KiB of file each) that overlap at one time, not for the whole file.
 */
typedef struct lsi_timeline_cursor lsi_timeline_cursor;
ls_status lsi_timeline_cursor_open(const lsi_timeline_process *process,
                                   lsi_timeline_cursor **out);

/* *out is the next span, until the next call; NULL after the last one. */
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

/* What a reader should know: "rank 1 has not ended well ..."; a line each. */
void lsi_timeline_warn(const lsi_timeline *timeline, FILE *stream);

/* ---- what it is written as ----------------------------------------------- */

/*
 * Chrome's trace event form (JSON), which Perfetto and chrome://tracing open:
 * a process for each rank, with a row for each thread and for each group, whose
 * collectives flows join; and what memory is in use.
 */
ls_status lsi_timeline_chrome(const lsi_timeline *timeline, FILE *stream);

#endif
