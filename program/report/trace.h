/*
 * What the ranks of a group have recorded, as read from their files.
 */
#ifndef LS_REPORT_TRACE_H
#define LS_REPORT_TRACE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

enum { LSI_TRACE_VERSION = 1, LSI_TRACE_MOST_RANKS = 1024 };

/* Numbers of operations and nanoseconds are below: 146 years. */
#define LSI_TRACE_NUMBERS (INT64_C(1) << 62)

/* One operation. Texts belong to the trace. */
typedef struct lsi_trace_call {
    int64_t sequence;
    const char *call; /* "all_reduce of 10 f32 (sum)" */
    const char *operation, *dtype, *redop;
    int64_t count, root;
    const char *status;         /* "done", "in flight", "failed" */
    int64_t began_ns, ended_ns; /* 0: not known */
    int peer;                   /* of a message */
    bool refused;               /* failed on all ranks, and the group went on */
} lsi_trace_call;

typedef struct lsi_trace_calls {
    lsi_trace_call *call; /* the oldest first */
    size_t n;
} lsi_trace_calls;

/* How the writer saw one rank of its group. */
typedef struct lsi_trace_rank {
    const char *presence; /* "alive", "dead", "left", "absent", "remote" */
    const char *host;
    int pid;
    int64_t completed, arrived;
    int waits_for; /* 1 + a rank; 0: nobody in particular */
} lsi_trace_rank;

typedef struct lsi_trace_side {
    int rank;
    const char *call;
} lsi_trace_side;

/* kind is NULL if the group was well. */
typedef struct lsi_trace_failure {
    const char *kind;
    int64_t sequence;
    int rank;               /* who is to blame, or gave up */
    const char *field;      /* of a mismatch: what differs, */
    lsi_trace_side side[2]; /* and what the two call */
} lsi_trace_failure;

typedef struct lsi_trace {
    const char *job;
    int64_t group;
    int rank, size, pid;
    const char *host, *reason;
    int64_t written_ns, wall_ns, completed;
    lsi_trace_failure failure;
    lsi_trace_rank *ranks; /* size of them */
    lsi_trace_calls collectives, messages;
    json_t *json; /* owns the texts; NULL if they are constants */
} lsi_trace;

/*
 * Reads one file. LS_ERR_IO if it cannot be read, LS_ERR_FORMAT if it is not
 * what a rank writes; both name the file. *out is freed with lsi_trace_free.
 */
ls_status lsi_trace_read(const char *path, lsi_trace **out);

/* The same of what is in a file, the reference to which is taken over. */
ls_status lsi_trace_of_json(json_t *json, const char *path, lsi_trace **out);

void lsi_trace_free(lsi_trace **trace);

#endif
