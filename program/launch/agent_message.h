/*
 * What the launchers of several nodes tell each other, as JSON in messages of
 * the rendezvous (comm/rendezvous/server.h): the agent, which starts the ranks
 * of a node, and the coordinator, which is one for all (coordinator.h).
 */
#ifndef LS_LAUNCH_AGENT_MESSAGE_H
#define LS_LAUNCH_AGENT_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cpu_claim.h"
#include "launch/launch.h"
#include "lockstep/status.h"

typedef enum lsi_agent_word {
    /* Of an agent. */
    LSI_AGENT_JOIN,   /* agent .. past, least .. port, machine .. quota, restart
                       */
    LSI_AGENT_FAILED, /* verdict, strength, text: one of its ranks */
    LSI_AGENT_DONE,   /* verdict: all its ranks have ended */
    LSI_AGENT_ASKED,  /* number: a signal that came to it, for all */
    /* Of the coordinator. */
    LSI_AGENT_SAY,    /* text, for people */
    LSI_AGENT_START,  /* group .. threads, job, run: start the ranks */
    LSI_AGENT_END,    /* verdict, text: end the ranks, for that reason */
    LSI_AGENT_SIGNAL, /* number: for the ranks */
    LSI_AGENT_FINISH, /* verdict, text: all is over */
    /* Of both. */
    LSI_AGENT_PING,
    LSI_AGENT_WORDS
} lsi_agent_word;

enum {
    LSI_AGENT_TEXT_BYTES = 512,
    LSI_AGENT_MOST_NODES = LSI_LAUNCH_MAX_NODES,
    LSI_AGENT_MOST_RANKS = 1 << 20
};

/* How much a failure says of who was the first (FAILED). */
enum {
    LSI_AGENT_WEAK,   /* an exit status: perhaps a consequence */
    LSI_AGENT_STRONG, /* killed by a signal: hardly one */
    LSI_AGENT_FINAL   /* not worth a restart: it would come again */
};

/* Of each word only what is named beside it is set. */
typedef struct lsi_agent_message {
    lsi_agent_word word;
    char text[LSI_AGENT_TEXT_BYTES];
    char agent[33]; /* random, of one launcher */
    char host[65];  /* for people */
    char run[200];  /* JOIN: --rdzv-id or ""; START: LOCKSTEP_RUN */
    char past[200]; /* JOIN: LOCKSTEP_RUN of the attempts before, or "" */
    char job[33];   /* LOCKSTEP_JOB */
    /* JOIN: the CPUs of the host, as base/cpu_claim.h has them. */
    char machine[17], quota_of[17]; /* hexadecimal; "0": not known, none */
    char cpus[400];                 /* "0-3,8" */
    int quota;                      /* thousandths of a CPU */
    int least, most;                /* --nnodes */
    int node;                       /* --node-rank, or -1 */
    int local;                      /* ranks of this node */
    int port; /* MASTER_PORT; of a JOIN: --master-port or 0 */
    int group, groups, offset, world;
    int restart;  /* JOIN: the least that can be next */
    int restarts; /* --max-restarts */
    int threads;  /* of a rank at most, since other nodes are on this machine;
                     0: none are */
    int verdict;  /* an exit status */
    int strength;
    int number;
} lsi_agent_message;

/* *out is freed with free(). */
ls_status lsi_agent_message_write(const lsi_agent_message *message, char **out,
                                  size_t *bytes);

/*
 * LS_ERR_FORMAT for anything that lsi_agent_message_write does not write: a
 * word or a number that is none. Text comes out without control characters.
 */
ls_status lsi_agent_message_read(const void *data, size_t bytes,
                                 lsi_agent_message *out);

/* The CPUs of a host in its JOIN. Foreign text that is no set has no machine.
 */
void lsi_agent_message_tell_cpus(lsi_agent_message *join,
                                 const lsi_cpu_claim *claim);
void lsi_agent_message_cpus(const lsi_agent_message *join, lsi_cpu_claim *out);

#endif
