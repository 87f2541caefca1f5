/* clang-format off */
/*
 * Who decides for all nodes of a job: which of them take part, when their ranks
 * start, what failed first, whether all start again, when it is over. It lives
 * in the supervisor of the node that serves the endpoint, beside that node's
 * own agent, and hears of the nodes by messages (agent_message.h).
 *
 *     MEETING   nodes join; at the most that there may be, or after a while
 *               with enough, all are told to start
 *     RUNNING   until the ranks of all nodes have ended; the first failure
 *               ends those of the others
 *     OVER      all have been told how it ended
 *
 * After a failure that is worth it, it goes from RUNNING to MEETING again.
 */
/* clang-format on */
#ifndef LS_LAUNCH_COORDINATOR_H
#define LS_LAUNCH_COORDINATOR_H

#include "comm/rendezvous/server.h"
#include "launch/launch.h"

typedef struct lsi_coordinator lsi_coordinator;

/* What holds for all nodes of a job. */
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

/* To be polled for reading; step when it is ready, and every slice. */
int lsi_coordinator_fd(const lsi_coordinator *c);
void lsi_coordinator_step(lsi_coordinator *c);

/* Tells all that the job is over, with that exit status and for that reason. */
void lsi_coordinator_finish(lsi_coordinator *c, int verdict, const char *text);

/* Whether all has been told to everybody who is still there. */
bool lsi_coordinator_is_through(const lsi_coordinator *c);

#endif
