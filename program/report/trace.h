/* The records of a group's ranks, as read from their files. */
#ifndef LS_REPORT_TRACE_H
#define LS_REPORT_TRACE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

enum { LSI_TRACE_VERSION = 1, LSI_TRACE_MOST_RANKS = 1024 };

/* Upper limit of operation numbers and nanoseconds: 146 years. */
#define LSI_TRACE_NUMBERS (INT64_C(1) << 62)

/* One operation. The trace owns its texts. */
typedef struct lsi_trace_call {
    int64_t sequence;
    const char *call; /* call, such as "all_reduce of 10 f32 (sum)" */
    const char *operation, *dtype, *redop;
    int64_t count, root;
    const char *status;         /* "done", "in flight", "failed" */
    int64_t began_ns, ended_ns; /* 0: not known */
    int peer;                   /* rank at the other end of a message */
    bool refused; /* failed on all ranks, and the group continued */
} lsi_trace_call;

typedef struct lsi_trace_calls {
    lsi_trace_call *call; /* the oldest first */
    size_t n;
} lsi_trace_calls;

/* One rank of the group, as the writer saw it. */
typedef struct lsi_trace_rank {
    const char *presence; /* "alive", "dead", "left", "absent", "remote" */
    const char *host;
    int pid;
    int64_t completed, arrived;
    int waits_for; /* 1 + a rank; 0: no particular rank */
} lsi_trace_rank;

typedef struct lsi_trace_side {
    int rank;
    const char *call;
} lsi_trace_side;

/* A failure of the group; kind is NULL without one. */
typedef struct lsi_trace_failure {
    const char *kind;
    int64_t sequence;
    int rank;          /* rank that caused the failure, or gave up */
    const char *field; /* field in which two calls differ, for a mismatch */
    lsi_trace_side side[2]; /* the two calls */
} lsi_trace_failure;

typedef struct lsi_trace {
    const char *job;
    int64_t group;
    int rank, size, pid;
    const char *host, *reason;
    const char *isa, *bits; /* NULL: the record is older than these */
    int64_t written_ns, wall_ns, completed;
    lsi_trace_failure failure;
    lsi_trace_rank *ranks; /* `size` of them */
    lsi_trace_calls collectives, messages;
    json_t *json; /* owner of the texts; NULL if they are constants */
} lsi_trace;

/*
 * Reads one file. LS_ERR_IO if it cannot be read, LS_ERR_FORMAT if it is not a
 * rank's record; both name the file. *out is freed with lsi_trace_free.
 */
ls_status lsi_trace_read(const char *path, lsi_trace **out);

/* Reads a trace from JSON, whose reference it takes over. */
ls_status lsi_trace_of_json(json_t *json, const char *path, lsi_trace **out);

void lsi_trace_free(lsi_trace **trace);

#endif
