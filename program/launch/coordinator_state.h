/*
 * What the coordinator's files share.
 */
#ifndef LS_LAUNCH_COORDINATOR_STATE_H
#define LS_LAUNCH_COORDINATOR_STATE_H

#include "launch/agent_message.h"
#include "launch/coordinator.h"

typedef enum lsi_coordinator_stage {
    LSI_JOB_MEETING,
    LSI_JOB_RUNNING,
    LSI_JOB_OVER
} lsi_coordinator_stage;

typedef struct lsi_job_member {
    int peer;
    int node; /* given, or -1 */
    int local, port;
    int arrival;
    int group;
    bool takes_part; /* in the attempt that runs */
    bool is_done;
    int verdict;
    double heard;
    char agent[33];
    char host[65];
    lsi_cpu_claim claim;
} lsi_job_member;

/* Of the attempt that runs. */
typedef struct lsi_job_failure {
    bool is_there, is_told;
    int verdict, strength;
    bool by_loss; /* of a node */
    double at;
    char text[LSI_AGENT_TEXT_BYTES];
} lsi_job_failure;

struct lsi_coordinator {
    lsi_job_terms terms;
    lsi_store_server *server;
    char own[33];
    char run[200];
    lsi_coordinator_stage stage;
    lsi_job_member *members;
    int n;
    size_t room; /* of members */
    int arrivals;
    int restart;
    bool has_started; /* ranks, by this launcher */
    bool has_lost;    /* a node since the last start */
    bool was_asked;   /* to end, by a signal */
    double since;     /* when the meeting began */
    double enough;    /* when there were enough nodes; 0: not yet */
    double told;      /* whom one waits for */
    double pinged;
    lsi_job_failure first;
};

/* Words for people, on all nodes. */
void lsi_coordinator_say(lsi_coordinator *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "a, b, c" */
void lsi_coordinator_list_hosts(const lsi_coordinator *c, char *out,
                                size_t bytes);

/* One is gone, for that reason. */
void lsi_coordinator_lose(lsi_coordinator *c, lsi_job_member *member,
                          const char *why);

/* What is due while nodes are awaited. */
void lsi_coordinator_look_at_meeting(lsi_coordinator *c, double now);

/* One that wants to take part: taken in, or told why not. */
void lsi_coordinator_join(lsi_coordinator *c, int peer,
                          const lsi_agent_message *message);

#endif
