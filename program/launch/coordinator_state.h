/* State of the coordinator, shared by its files. */
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
    int node; /* given number, or -1 */
    int local, port;
    int arrival;
    int group;
    bool takes_part; /* in the current attempt */
    bool is_done;
    int verdict;
    double last_message; /* time of its last message */
    char agent[33];
    char host[65];
    lsi_cpu_claim claim;
} lsi_job_member;

/* A failure of the current attempt. */
typedef struct lsi_job_failure {
    bool is_there, is_sent;
    int verdict, strength;
    bool by_loss; /* loss of a node */
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
    size_t room; /* capacity of members */
    int arrivals;
    int restart;
    bool has_started;   /* this launcher has started ranks */
    bool has_lost;      /* a node was lost since the last start */
    bool was_asked;     /* a signal asked for the end */
    double since;       /* start of the meeting */
    double enough;      /* when enough nodes had joined; 0: not yet */
    double reported_at; /* when awaited nodes were last reported */
    double last_ping;   /* time of the last ping to all members */
    lsi_job_failure first;
};

/* Prints a message on all nodes. */
void lsi_coordinator_print(lsi_coordinator *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "a, b, c" */
void lsi_coordinator_list_hosts(const lsi_coordinator *c, char *out,
                                size_t bytes);

/* Handles the loss of a member, with its reason. */
void lsi_coordinator_lose(lsi_coordinator *c, lsi_job_member *member,
                          const char *why);

/* Acts on deadlines while waiting for nodes. */
void lsi_coordinator_check_meeting(lsi_coordinator *c, double now);

/* Admits a node that wants to join, or tells it the reason for refusal. */
void lsi_coordinator_join(lsi_coordinator *c, int peer,
                          const lsi_agent_message *message);

#endif
