/*
 * What a process does now, for `lockstep top`: a page that it shares by a
 * descriptor, which others of its user find in /proc. It is made at the first
 * step of an optimizer, lives as long as the process, and costs a store a step;
 * phases and waiting are only told while somebody looks.
 */
#ifndef LS_BASE_LIVE_H
#define LS_BASE_LIVE_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How /proc names the descriptor, and what nobody can do with it any more. */
#define LSI_LIVE_NAME  "lockstep-live"
#define LSI_LIVE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

enum {
    LSI_LIVE_VERSION = 1,
    LSI_LIVE_PHASES = 32, /* further ones are the first: outside of any */
    LSI_LIVE_NAME_BYTES = 32,
    LSI_LIVE_TAGS = 8 /* kinds of memory */
};

/* Who looks says so as often, in nanoseconds; who does not, has gone. */
#define LSI_LIVE_LOOKS ((uint64_t)10 * 1000 * 1000 * 1000)

typedef struct lsi_live_page {
    uint64_t version;
    int32_t pid, rank, size; /* rank -1: not known */
    uint32_t unused;
    /* By who looks: the monotonic clock, now. */
    _Atomic uint64_t looked_ns;
    /* By the process: */
    _Atomic uint64_t steps; /* done; odd numbers of `changes`: just changing */
    _Atomic uint64_t changes;
    _Atomic uint64_t samples; /* ever */
    _Atomic uint64_t phase;   /* it is in, since: */
    _Atomic uint64_t phase_ns;
    _Atomic uint64_t waits_ns; /* since when it waits for others; 0: it works */
    _Atomic uint64_t waited_ns;  /* ever, while somebody looked */
    _Atomic uint64_t watched_ns; /* since when it tells all this; 0: no */
    _Atomic uint64_t memory[LSI_LIVE_TAGS], peak;
    /* Of the last step: by phase, without waiting. */
    _Atomic uint64_t busy_ns[LSI_LIVE_PHASES];
    _Atomic uint64_t names; /* phases that have one */
    char name[LSI_LIVE_PHASES][LSI_LIVE_NAME_BYTES];
} lsi_live_page;

/* A step of the optimizer is over. */
void lsi_live_step(void);

/* So many samples (tokens, images) have been learnt from. */
void lsi_live_add_samples(double samples);

/* A phase, or a time of waiting, begins and ends. For spans.c. */
void lsi_live_enter(bool phase, const char *name);
void lsi_live_leave(bool phase);

#endif
