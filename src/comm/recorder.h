/*
 * The last operations of this rank, for finding out afterwards on which call
 * ranks began to differ. Always on: it costs one look at the clock a call.
 *
 * If LOCKSTEP_RECORD names a folder, the record is written there as JSON when
 * the group fails, and when the process gets SIGUSR1 and next looks around.
 */
#ifndef LS_COMM_RECORDER_H
#define LS_COMM_RECORDER_H

#include "comm/state.h"

enum { LSI_RECORDS = 1024 };

typedef struct lsi_record {
    uint64_t sequence; /* of a collective; 0 for a message */
    lsi_fingerprint call;
    uint64_t began_ns;
    bool ended; /* collectives only: messages are recorded when posted */
    const lsi_algorithm *algorithm;
    int peer; /* of a message */
} lsi_record;

struct lsi_recorder {
    uint64_t total;     /* ever recorded */
    unsigned dumped;    /* requests by signal that have been served */
    const char *folder; /* NULL: never written */
    lsi_record records[LSI_RECORDS];
};

ls_status lsi_recorder_open(lsi_recorder **out);

/* A collective begins; op->record is the number by which its end is known. */
uint64_t lsi_record_begin(lsi_recorder *recorder, const lsi_op *op);
void lsi_record_end(lsi_recorder *recorder, const lsi_op *op);

void lsi_record_message(lsi_recorder *recorder, const lsi_call *call, int peer);

/* Writes FOLDER/rank-R-group-G.json, if there is a folder. */
void lsi_recorder_dump(const ls_group *group, const char *reason);

/* Does so if a signal has asked for it since the last time. */
void lsi_recorder_check_signal(const ls_group *group);

#endif
