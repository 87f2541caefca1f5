/*
 * A node's part in a job of several nodes. The agent connects to the endpoint,
 * and serves it itself if it can (coordinator.h). It then joins, reports the
 * state of its ranks and receives orders for them. The supervisor runs the
 * agent in its loop and follows its orders.
 *
 * Agents and coordinator send LSI_AGENT_PINGS messages to each other within the
 * time after which silence means that a host is lost. The end of a launcher,
 * for any reason, is noticed at once, since its kernel closes the connection.
 *
 * A launcher that serves the endpoint and ends on purpose sends FINISH first.
 * Without FINISH, and with a restart left, the other agents look for the
 * endpoint again. A new launcher there continues their run and their count of
 * restarts.
 */
#ifndef LS_LAUNCH_AGENT_H
#define LS_LAUNCH_AGENT_H

#include "launch/agent_message.h"
#include "launch/coordinator.h"
#include "launch/environment.h"
#include "launch/launch.h"
#include "launch/output.h"

typedef struct lsi_agent lsi_agent;

typedef enum lsi_agent_stage {
    LSI_AGENT_MEETING, /* waits for the other nodes */
    LSI_AGENT_RUNNING, /* the ranks have to run */
    LSI_AGENT_OVER     /* has a verdict */
} lsi_agent_stage;

enum { LSI_AGENT_PINGS = 5 };

/* Seconds after which silence means that a host is lost. */
double lsi_agent_silence(const lsi_launch_nodes *nodes);

/*
 * Looks up the endpoint, chooses the interface, reads the secret, and serves
 * the endpoint if this is its host. LS_ERR_ARGUMENT and others name the step
 * that failed.
 */
ls_status lsi_agent_open(const lsi_job_terms *terms,
                         const lsi_launch_ranks *ranks,
                         const lsi_output *output, lsi_agent **out);
void lsi_agent_close(lsi_agent *agent);

/*
 * A descriptor to poll for reading. Call lsi_agent_step when it is ready, and
 * at least once every slice.
 */
int lsi_agent_fd(const lsi_agent *agent);
void lsi_agent_step(lsi_agent *agent);

lsi_agent_stage lsi_agent_get_stage(const lsi_agent *agent);

/* The place of this node, from the most recent START. */
void lsi_agent_place(const lsi_agent *agent, lsi_job_place *out);

/* Takes the next END or SIGNAL; false without any. */
bool lsi_agent_next_order(lsi_agent *agent, lsi_agent_message *out);

/*
 * Reports the failure of a rank (agent_message.h has the strengths). True if
 * the coordinator will tell all nodes, this one included: an END will follow.
 */
bool lsi_agent_report_failure(lsi_agent *agent, int verdict, int strength,
                              const char *text);

/* Reports a failure of this host itself, caused by it or done to it. */
void lsi_agent_report_host(lsi_agent *agent, int verdict, int strength,
                           const char *what);

/*
 * Reports that all ranks of this attempt have ended. If the endpoint is lost,
 * `may_restart` says whether to look for it again.
 */
void lsi_agent_report_end(lsi_agent *agent, int verdict, bool may_restart);

/* Whether messages to the coordinator can be sent now. */
bool lsi_agent_is_connected(const lsi_agent *agent);

/* This launcher ends: no node has to wait for an endpoint that it served. */
void lsi_agent_dismiss(lsi_agent *agent, int verdict);

/* Reports a signal that this launcher received; whether all nodes get it. */
bool lsi_agent_report_signal(lsi_agent *agent, int number);

/* Exit status of the job, once it is over. */
int lsi_agent_verdict(const lsi_agent *agent);

/* Whether all nodes have been notified, once the job is over. */
bool lsi_agent_is_through(const lsi_agent *agent);

/*
 * "rank 3 on host b (node 1, pid 17)" in out[bytes]; `rank` is the rank's index
 * on this node.
 */
void lsi_agent_name_rank(const lsi_agent *agent, int rank, int pid, char *out,
                         size_t bytes);

#endif
