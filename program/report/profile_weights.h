/*
 * Waiting for weights of other nodes, for profile.c: the waits of a profile,
 * and their reasons.
 */
#ifndef LS_REPORT_PROFILE_WEIGHTS_H
#define LS_REPORT_PROFILE_WEIGHTS_H

#include "report/profile.h"

/* A wait of a rank for a layer. */
typedef struct lsi_profile_wait {
    int64_t begin, end;
    uint64_t node, need; /* lowest rank of the node; lsi_weight_need */
    size_t layer;        /* index of the profile's list */
} lsi_profile_wait;

typedef struct lsi_profile_waits {
    lsi_profile_wait *wait;
    size_t n, room, layer_room;
} lsi_profile_waits;

/* Counts a wait (LSI_SPAN_AWAIT) of a process in a phase. */
ls_status lsi_profile_add_wait(lsi_profile_waits *waits, lsi_profile *profile,
                               const lsi_timeline_process *process,
                               const lsi_timeline_span *span, int phase);

/*
 * Finds the reasons of all waits, by the gathers and answers of all processes.
 * Sorts the layers: the longest wait first.
 */
ls_status lsi_profile_explain_waits(lsi_profile_waits *waits,
                                    lsi_profile *profile,
                                    const lsi_timeline *timeline);

#endif
