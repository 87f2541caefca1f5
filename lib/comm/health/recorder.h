/*
 * The last operations of this rank, to find out afterwards on which call ranks
 * began to differ. Recording is always on, so it must cost next to nothing: it
 * writes one cache line, and reads clocks only where that is cheap. A rank that
 * waits has the time; otherwise long operations and every sixteenth are timed.
 *
 * Collectives and messages have a ring each, so a flood of one does not push
 * out the other. One thread writes and any may read. A reader reads the number
 * of a record before and after all its other fields. The writer clears the
 * number before it changes a record, and sets the new one at the end. All of
 * this has release order, so equal numbers mean that the record has not changed
 * in between.
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

/* A copy of a record, for a reader. */
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
/* The sender of a message has become known. */
void lsi_record_message_peer(ls_group *group, const lsi_message *message);
void lsi_record_message_end(ls_group *group, const lsi_message *message);

/* This rank begins to wait for others; its wait will be long. */
void lsi_record_wait(ls_group *group);
void lsi_record_long_wait(ls_group *group);

/*
 * Finds the record of a collective. False if it is not there, or is being
 * written.
 */
bool lsi_record_find(const lsi_recorder *recorder, uint64_t sequence,
                     lsi_recorded *out);

/* The records of a ring, the oldest first; returns their number. */
size_t lsi_recorder_ordered(const lsi_record ring[LSI_RECORDS],
                            lsi_recorded out[LSI_RECORDS]);

#endif
