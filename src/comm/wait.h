/*
 * Waiting without burning the processor, and waking those who wait.
 */
#ifndef LS_COMM_WAIT_H
#define LS_COMM_WAIT_H

#include "comm/state.h"

typedef struct lsi_patience {
    int looks;           /* without sleeping */
    int spins;           /* of these without yielding */
    int yields;          /* the rest */
    uint64_t began_ns;   /* waking time of the first sleep; 0 before it */
    uint64_t checked_ns; /* the same, when peers were last looked at */
    bool told;           /* other nodes know whom this rank waits for */
} lsi_patience;

/*
 * Called when lsi_progress moved nothing: spins a little, yields, later sleeps
 * until a peer does something. Returns an error if a peer is gone or time is
 * up.
 */
ls_status lsi_pause(ls_group *group, lsi_patience *patience);

/* Something has moved: begins anew, and learns from how long it took. */
void lsi_patience_rewarded(ls_group *group, lsi_patience *patience);

/* Decides how to wait, from the CPUs that the members may use. */
void lsi_learn_to_wait(ls_group *group);

/* Wakes all ranks, or one. */
void lsi_wake_all(ls_group *group);
void lsi_wake_rank(ls_group *group, int rank);

#endif
