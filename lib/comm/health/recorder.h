/*
 * The last operations of this rank, for finding out afterwards on which call
 * ranks began to differ. Always on, so it must cost next to nothing: a line of
 * memory is written, and clocks are read only where that is cheap. A rank that
 * waits has the time; otherwise long operations and every sixteenth are timed.
 *
 * Collectives and messages have a ring each: a flood of one does not push out
 * the other. One thread writes and any may read. A reader takes the number of
 * a record before and after all else; the writer takes it away before it
 * changes a record and puts the new one in at the end, everything with release
 * order, so equal numbers mean that nothing has changed in between.
 */
#ifndef LS_COMM_HEALTH_RECORDER_H
#define LS_COMM_HEALTH_RECORDER_H

#include "base/clock.h"
#include "comm/state/state.h"

enum { LSI_RECORDS = 1024 };

typedef struct lsi_record {
    alignas(LSI_LINE) _Atomic uint64_t number; /* from 1; 0: none */
    _Atomic uint64_t what, count;              /* lsi_fingerprint */
    _Atomic uint64_t began, ended;             /* ticks; 0: not looked at */
    _Atomic(const lsi_algorithm *) algorithm;
    _Atomic uint64_t apart; /* recv - send in bytes; of a message: the peer */
    _Atomic uint64_t state;
} lsi_record;

/* Bits of a record's state. */
enum {
    LSI_RECORD_TIMED = 1, /* its end is worth a look at the clock */
    LSI_RECORD_DONE = 2,
    LSI_RECORD_FAILED = 4 /* by itself; the group went on */
};

/* What a reader gets. */
typedef struct lsi_recorded {
    uint64_t number;
    lsi_call call;
    uint64_t began, ended, apart, state;
    const lsi_algorithm *algorithm;
} lsi_recorded;

struct lsi_recorder {
    lsi_instant opened;
    uint64_t messages; /* ever recorded */
    lsi_record collective[LSI_RECORDS], message[LSI_RECORDS];
};

ls_status lsi_recorder_open(lsi_recorder **out);

/* A collective has been submitted; all ranks have come to it; it is over. */
void lsi_record_begin(const lsi_collective *op);
void lsi_record_arrived(lsi_collective *op);
void lsi_record_end(const lsi_collective *op);

/* A message has been queued; it is over. */
void lsi_record_message(ls_group *group, lsi_message *message,
                        lsi_operation operation, int peer);
/* It is known from whom it comes. */
void lsi_record_message_peer(ls_group *group, const lsi_message *message);
void lsi_record_message_end(ls_group *group, const lsi_message *message);

/* This rank begins to wait for others; it will take long. */
void lsi_record_wait(ls_group *group);
void lsi_record_long_wait(ls_group *group);

/* Whether there is such a collective; false if it is being written just now. */
bool lsi_record_find(const lsi_recorder *recorder, uint64_t sequence,
                     lsi_recorded *out);

/* The records of a ring, the oldest first; returns how many. */
size_t lsi_recorder_ordered(const lsi_record ring[LSI_RECORDS],
                            lsi_recorded out[LSI_RECORDS]);

#endif
