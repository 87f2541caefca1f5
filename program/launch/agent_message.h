/*
 * Messages between the launchers of several nodes: JSON in messages of the
 * rendezvous (comm/rendezvous/server.h). Agents start the ranks of a node; one
 * coordinator leads all of them (coordinator.h).
 */
#ifndef LS_LAUNCH_AGENT_MESSAGE_H
#define LS_LAUNCH_AGENT_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cpu_claim.h"
#include "launch/launch.h"
#include "lockstep/status.h"

typedef enum lsi_agent_word {
    /* From an agent. */
    LSI_AGENT_JOIN,   /* agent .. past, least .. port, machine .. quota, restart
                       */
    LSI_AGENT_FAILED, /* verdict, strength, text: a rank failed */
    LSI_AGENT_DONE,   /* verdict: all its ranks have ended */
    LSI_AGENT_ASKED,  /* number: a signal it received, for all nodes */
    /* From the coordinator. */
    LSI_AGENT_SAY,    /* text for people */
    LSI_AGENT_START,  /* group .. threads, job, run: start the ranks */
    LSI_AGENT_END,    /* verdict, text: end the ranks, and why */
    LSI_AGENT_SIGNAL, /* number: a signal for the ranks */
    LSI_AGENT_FINISH, /* verdict, text: the job is over */
    /* From both. */
    LSI_AGENT_PING,
    LSI_AGENT_WORDS
} lsi_agent_word;

enum {
    LSI_AGENT_TEXT_BYTES = 512,
    LSI_AGENT_MOST_NODES = LSI_LAUNCH_MAX_NODES,
    LSI_AGENT_MOST_RANKS = 1 << 20
};

/* Likelihood that a failure was the first one (FAILED). */
enum {
    LSI_AGENT_WEAK,   /* an exit status: perhaps a consequence */
    LSI_AGENT_STRONG, /* killed by a signal: hardly a consequence */
    LSI_AGENT_FINAL   /* a restart would fail in the same way */
};

/* Each word sets only the members listed in lsi_agent_word. */
typedef struct lsi_agent_message {
    lsi_agent_word word;
    char text[LSI_AGENT_TEXT_BYTES];
    char agent[33]; /* random name of one launcher */
    char host[65];  /* host name for people */
    char run[200];  /* JOIN: --rdzv-id or ""; START: LOCKSTEP_RUN */
    char past[200]; /* JOIN: LOCKSTEP_RUN of earlier attempts, or "" */
    char job[33];   /* LOCKSTEP_JOB */
    /* JOIN: the CPUs of the host, as base/cpu_claim.h defines them. */
    char machine[17], quota_of[17]; /* hexadecimal; "0": not known, none */
    char cpus[400];                 /* "0-3,8" */
    int quota;                      /* thousandths of a CPU */
    int least, most;                /* --nnodes */
    int node;                       /* --node-rank, or -1 */
    int local;                      /* number of ranks of this node */
    int port; /* MASTER_PORT; in JOIN: --master-port or 0 */
    int group, groups, offset, world;
    int restart;  /* JOIN: the lowest number of the next restart */
    int restarts; /* --max-restarts */
    int threads;  /* most threads of a rank, since other nodes share this
                     machine; 0: no other nodes */
    int verdict;  /* exit status */
    int strength;
    int number;
} lsi_agent_message;

/* *out is freed with free(). */
ls_status lsi_agent_message_write(const lsi_agent_message *message, char **out,
                                  size_t *bytes);

/*
 * LS_ERR_FORMAT for any text that lsi_agent_message_write does not write, such
 * as an unknown word or an invalid number. Control characters are removed from
 * texts.
 */
ls_status lsi_agent_message_read(const void *data, size_t bytes,
                                 lsi_agent_message *out);

/*
 * The CPUs of a host in its JOIN. Received text that is not a set of CPUs gives
 * no machine.
 */
void lsi_agent_message_set_cpus(lsi_agent_message *join,
                                const lsi_cpu_claim *claim);
void lsi_agent_message_cpus(const lsi_agent_message *join, lsi_cpu_claim *out);

#endif
