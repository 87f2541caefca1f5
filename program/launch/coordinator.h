/* clang-format off */
/*
 * The coordinator decides for all nodes of a job which of them take part, when
 * their ranks start, and which failure was the first. It also decides whether
 * all start again, and when the job is over. It runs in the supervisor of the
 * node that serves the endpoint, next to that node's agent. Nodes report to it
 * by messages (agent_message.h).
 *
 *     MEETING   nodes join; the start follows with the most nodes allowed, or
 *               after a while with enough nodes
 *     RUNNING   until the ranks of all nodes have ended; the first failure
 *               ends the ranks of the other nodes
 *     OVER      all nodes have been told how the job ended
 *
 * After a failure that allows a restart, it goes from RUNNING back to MEETING.
 */
/* clang-format on */
#ifndef LS_LAUNCH_COORDINATOR_H
#define LS_LAUNCH_COORDINATOR_H

#include "comm/rendezvous/server.h"
#include "launch/launch.h"

typedef struct lsi_coordinator lsi_coordinator;

/* Terms that hold for all nodes of a job. */
typedef struct lsi_job_terms {
    const lsi_launch_nodes *nodes;
    const lsi_launch_limits *limits;
    const char *run_id; /* NULL: a random one */
} lsi_job_terms;

/*
 * Serves the endpoint of terms->nodes. `own` is the name (JOIN's `agent`) of
 * this node's agent, which is always the first of all nodes. *why as from
 * lsi_store_serve.
 */
ls_status lsi_coordinator_open(const lsi_job_terms *terms, const char *secret,
                               const char *own, lsi_coordinator **out,
                               lsi_store_refusal *why);
void lsi_coordinator_close(lsi_coordinator *c);

/* A descriptor to poll for reading. Step when it is ready, and every slice. */
int lsi_coordinator_fd(const lsi_coordinator *c);
void lsi_coordinator_step(lsi_coordinator *c);

/* Tells all nodes that the job is over, with its exit status and the reason. */
void lsi_coordinator_finish(lsi_coordinator *c, int verdict, const char *text);

/* Whether all nodes that are still connected have received all messages. */
bool lsi_coordinator_is_through(const lsi_coordinator *c);

#endif
