/*
 * The pages on which ranks of this machine say what they do (observe/live.h),
 * as /proc shows them to their user.
 */
#ifndef LS_LAUNCH_LIVE_PAGES_H
#define LS_LAUNCH_LIVE_PAGES_H

#include <stddef.h>
#include <sys/types.h>

#include "lockstep/status.h"
#include "observe/live.h"

/* A copy of a page, all of it of the same step. */
typedef struct lsi_live_look {
    pid_t pid;
    int rank, size; /* rank -1: not known */
    uint64_t now_ns, steps, samples, waited_ns;
    uint64_t watched_ns; /* since when it tells more than steps; 0: not yet */
    char phase[LSI_LIVE_NAME_BYTES];
    uint64_t phase_ns; /* since when it is in it */
    uint64_t waits_ns; /* since when it waits for others; 0: it works */
    uint64_t memory, peak;
    /* The longest wait that lasts; waiting_ns 0: none that is told. */
    uint64_t waiting_ns; /* since when */
    int awaits;          /* a rank of the group; -1: none in particular */
    char call[LSI_LIVE_CALL_BYTES]; /* "#7 all_reduce of 10 f32 (sum)" */
    size_t names;
    char name[LSI_LIVE_PHASES][LSI_LIVE_NAME_BYTES];
    uint64_t busy_ns[LSI_LIVE_PHASES]; /* of the last step, by phase */
} lsi_live_look;

/*
 * Maps the page of a process. *out is given back with lsi_live_close.
 * LS_ERR_NOT_FOUND if it has none, because it has neither taken a step nor
 * joined other ranks; or LS_ERR_SYSTEM if it cannot be looked at, as it is
 * another user's, say.
 */
ls_status lsi_live_open(lsi_live_page **out, pid_t pid);
void lsi_live_close(lsi_live_page **page);

/*
 * What the process does, in words: "backward, in #7 all_reduce of 10 f32 (sum),
 * waiting for rank 1". NULL stands for a process without a page. Returns for
 * how many seconds it has; below 0 if that is not known.
 */
enum { LSI_LIVE_TEXT = LSI_LIVE_NAME_BYTES + LSI_LIVE_CALL_BYTES + 48 };
double lsi_live_text(const lsi_live_look *look_or_null,
                     char text[LSI_LIVE_TEXT]);

/* Looks at it, and lets its process know that somebody does. */
void lsi_live_read(lsi_live_page *page, lsi_live_look *out);

#endif
