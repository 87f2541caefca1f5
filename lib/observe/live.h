/*
 * The present state of a process, for `lockstep top`: a page that it shares by
 * a descriptor, which processes of the same user find in /proc. It is made when
 * the process joins others, or at the first step of an optimizer, lives as long
 * as the process, and costs a store a step. Phases, and the time spent waiting,
 * are reported only while a reader looks. A long wait is always reported, ten
 * times a second.
 */
#ifndef LS_OBSERVE_LIVE_H
#define LS_OBSERVE_LIVE_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Name of the descriptor in /proc, and the changes that are sealed off. */
#define LSI_LIVE_NAME  "lockstep-live"
#define LSI_LIVE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

enum {
    LSI_LIVE_VERSION = 3,
    LSI_LIVE_PHASES = 32, /* further ones are the first: outside of any */
    LSI_LIVE_NAME_BYTES = 32,
    LSI_LIVE_TAGS = 9,  /* kinds of memory */
    LSI_LIVE_WAITS = 8, /* threads that wait at once; more are not shown */
    LSI_LIVE_CALL_BYTES = 96
};

/* Nanoseconds after which a reader that has not read the page is gone. */
#define LSI_LIVE_LOOKS ((uint64_t)10 * 1000 * 1000 * 1000)

/* A thread of the process waits for other ranks, and has for long. */
typedef struct lsi_live_wait {
    _Atomic uint64_t changes;  /* odd: just changing */
    _Atomic uint64_t since_ns; /* monotonic clock; 0: this place is free */
    _Atomic uint64_t seen_ns;  /* when it was last seen waiting */
    int32_t awaits;            /* a rank of the group; -1: none in particular */
    int32_t tests; /* 1: the program tests, and may have given it up */
    char call[LSI_LIVE_CALL_BYTES]; /* "#7 all_reduce of 10 f32 (sum)" */
} lsi_live_wait;

typedef struct lsi_live_page {
    uint64_t version;
    int32_t pid, rank, size; /* rank -1: not known */
    uint32_t unused;
    /* Written by readers: when one last read the page (monotonic clock). */
    _Atomic uint64_t looked_ns;
    /* Written by the process: */
    _Atomic uint64_t steps; /* done; odd numbers of `changes`: just changing */
    _Atomic uint64_t changes;
    _Atomic uint64_t samples; /* ever */
    _Atomic uint64_t phase;   /* index of the present one; since phase_ns */
    _Atomic uint64_t phase_ns;
    _Atomic uint64_t waits_ns; /* since when it waits for others; 0: it works */
    _Atomic uint64_t waited_ns;  /* in all, while a reader watched */
    _Atomic uint64_t watched_ns; /* since when phases are reported; 0: no */
    _Atomic uint64_t memory[LSI_LIVE_TAGS], peak;
    /* Of the last step: by phase, without waiting. */
    _Atomic uint64_t busy_ns[LSI_LIVE_PHASES];
    _Atomic uint64_t names; /* phases that have one */
    char name[LSI_LIVE_PHASES][LSI_LIVE_NAME_BYTES];
    lsi_live_wait wait[LSI_LIVE_WAITS];
} lsi_live_page;

/* Makes the page, so that others find it. */
void lsi_live_begin(void);

/* A step of the optimizer is over. */
void lsi_live_step(void);

/* Reports this number of trained samples (tokens, images). */
void lsi_live_add_samples(double samples);

/*
 * Reports a thread that has waited for long; called again and again while the
 * wait lasts. *place is 0 at first, then 1 + the index of the page's wait.
 */
typedef struct lsi_live_waiting {
    uint64_t since_ns; /* monotonic clock */
    int awaits;        /* a rank of the group; -1: none in particular */
    bool tests;        /* waits by testing: over if not reported again */
    const char *call;
} lsi_live_waiting;
void lsi_live_waits(const lsi_live_waiting *waiting, unsigned *place);
void lsi_live_waited(unsigned *place);

/* A phase, or a time of waiting, begins and ends. For spans.c. */
void lsi_live_enter(bool phase, const char *name);
void lsi_live_leave(bool phase);

#endif
