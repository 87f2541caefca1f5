/*
 * Diagnosis of a group from the records of its ranks. The functions are pure:
 * findings depend on the arguments alone.
 */
#ifndef LS_REPORT_DIAGNOSIS_H
#define LS_REPORT_DIAGNOSIS_H

#include "report/trace.h"

/* X(name, text). The first finding is the one to begin with. */
#define LSI_FINDING_LIST(X)                                                    \
    X(MISMATCH, "mismatch") /* ranks do not call the same */                   \
    X(DEAD, "dead")         /* a rank has died, or left too early */           \
    X(LATE, "late")         /* ranks wait for one that does not come */        \
    X(MESSAGE, "message")   /* a message without a counterpart */              \
    X(MISSING, "missing")   /* a rank has written nothing */                   \
    X(FAILED, "failed")     /* any other failure that ended the group */

typedef enum lsi_finding_kind {
#define X(name, text) LSI_FINDING_##name,
    LSI_FINDING_LIST(X)
#undef X
} lsi_finding_kind;

const char *lsi_finding_name(lsi_finding_kind kind);

enum { LSI_FINDINGS = 16, LSI_FINDING_BYTES = 640 };

typedef struct lsi_finding {
    lsi_finding_kind kind;
    int64_t sequence; /* number of the collective concerned, or 0 */
    char text[LSI_FINDING_BYTES];
} lsi_finding;

typedef struct lsi_diagnosis {
    const lsi_trace *trace[LSI_TRACE_MOST_RANKS]; /* by rank; NULL: none */
    const lsi_trace *newest;
    int size;
    double late_seconds;    /* seconds of waiting from which a rank is late */
    int64_t last_completed; /* last one on all ranks; 0: none */
    int64_t timed; /* number of calls for which all arrivals are known */
    double behind_us[LSI_TRACE_MOST_RANKS]; /* mean, after the first arrival */
    int n_findings;
    lsi_finding finding[LSI_FINDINGS];
} lsi_diagnosis;

/*
 * Examines n >= 1 traces of one group. If a rank has two, the newer one counts.
 * `out` refers to the traces.
 */
void lsi_diagnose(const lsi_trace *const *traces, size_t n, double late_seconds,
                  lsi_diagnosis *out);

/* The oldest call that a rank has not finished, or NULL. */
const lsi_trace_call *lsi_trace_unfinished(const lsi_trace_calls *calls);

/* The call with that number, or NULL. */
const lsi_trace_call *lsi_trace_find(const lsi_trace *trace, int64_t sequence);

/*
 * Seconds from a call's beginning to the writing of the trace; negative if not
 * known.
 */
double lsi_trace_waited(const lsi_trace *trace, const lsi_trace_call *call);

#endif
