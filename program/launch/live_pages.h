/*
 * The pages on which ranks of this machine publish their state
 * (observe/live.h), as /proc shows them to their user.
 */
#ifndef LS_LAUNCH_LIVE_PAGES_H
#define LS_LAUNCH_LIVE_PAGES_H

#include <stddef.h>
#include <sys/types.h>

#include "lockstep/status.h"
#include "observe/live.h"

/* A copy of a page, consistent for one step. */
typedef struct lsi_live_look {
    pid_t pid;
    int rank, size; /* rank -1: not known */
    uint64_t now_ns, steps, samples, waited_ns;
    uint64_t watched_ns; /* start of reports beyond steps; 0: not yet */
    char phase[LSI_LIVE_NAME_BYTES];
    uint64_t phase_ns; /* when it entered the phase */
    uint64_t waits_ns; /* start of waiting for other ranks; 0: working */
    uint64_t memory, peak;
    /* The longest current wait; waiting_ns 0: none is reported. */
    uint64_t waiting_ns; /* start of the wait */
    int awaits;          /* rank of the group; -1: none in particular */
    char call[LSI_LIVE_CALL_BYTES]; /* "#7 all_reduce of 10 f32 (sum)" */
    size_t names;
    char name[LSI_LIVE_PHASES][LSI_LIVE_NAME_BYTES];
    uint64_t busy_ns[LSI_LIVE_PHASES]; /* ns of the last step, by phase */
} lsi_live_look;

/*
 * Maps the page of a process. *out is released with lsi_live_close.
 * LS_ERR_NOT_FOUND for a process without a page: it has not run a step or
 * joined other ranks. LS_ERR_SYSTEM if the page cannot be read, for example
 * because it belongs to another user.
 */
ls_status lsi_live_open(lsi_live_page **out, pid_t pid);
void lsi_live_close(lsi_live_page **page);

/*
 * The state of a process in words: "backward, in #7 all_reduce of 10 f32 (sum),
 * waiting for rank 1". NULL stands for a process without a page. Returns the
 * seconds since this state began; below 0 if not known.
 */
enum { LSI_LIVE_TEXT = LSI_LIVE_NAME_BYTES + LSI_LIVE_CALL_BYTES + 48 };
double lsi_live_text(const lsi_live_look *look_or_null,
                     char text[LSI_LIVE_TEXT]);

/* Reads the page, and lets its process know that it is being read. */
void lsi_live_read(lsi_live_page *page, lsi_live_look *out);

#endif
