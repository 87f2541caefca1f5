/*
 * A node's part in a job of several nodes: it connects to the
 * endpoint, which it serves itself if it is the one that can (coordinator.h),
 * joins, says what becomes of its ranks and hears what is to become of them.
 * The supervisor has it in its loop and does what it says.
 *
 * Agents and coordinator say something to each other LSI_AGENT_PINGS times
 * within the time after which silence means that a host is lost. A launcher
 * that ends, however it does, is noticed at once, since its kernel closes the
 * connection. One that serves the endpoint and ends on purpose says so before
 * (FINISH). Without that, and with a restart left, the other agents look for
 * the endpoint again: a new launcher there goes on with their run and their
 * count of restarts.
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
    LSI_AGENT_MEETING, /* for the other nodes */
    LSI_AGENT_RUNNING, /* the ranks are to run */
    LSI_AGENT_OVER     /* with a verdict */
} lsi_agent_stage;

enum { LSI_AGENT_PINGS = 5 };

/* Seconds after which silence means that a host is lost. */
double lsi_agent_silence(const lsi_launch_nodes *nodes);

/*
 * Looks up the endpoint, chooses the interface, reads the secret, and serves
 * the endpoint if this is its host. LS_ERR_ARGUMENT and others: what of that
 * was wrong.
 */
ls_status lsi_agent_open(const lsi_job_terms *terms,
                         const lsi_launch_ranks *ranks,
                         const lsi_output *output, lsi_agent **out);
void lsi_agent_close(lsi_agent *agent);

/* To be polled for reading; step when it is ready, every slice at least. */
int lsi_agent_fd(const lsi_agent *agent);
void lsi_agent_step(lsi_agent *agent);

lsi_agent_stage lsi_agent_look(const lsi_agent *agent);

/* What to start, by the START that came last. */
void lsi_agent_place(const lsi_agent *agent, lsi_job_place *out);

/* Takes the next END or SIGNAL; false if there is none. */
bool lsi_agent_take_order(lsi_agent *agent, lsi_agent_message *out);

/*
 * One of the ranks has failed (agent_message.h has the strengths). True if the
 * coordinator will say so to all, this node among them: an END is to come.
 */
bool lsi_agent_report_failure(lsi_agent *agent, int verdict, int strength,
                              const char *text);

/* The same of this host itself: what it does or what is done to it. */
void lsi_agent_report_host(lsi_agent *agent, int verdict, int strength,
                           const char *what);

/*
 * All ranks of this attempt have ended. If the endpoint is lost, `may_restart`
 * says whether to look for it again.
 */
void lsi_agent_report_end(lsi_agent *agent, int verdict, bool may_restart);

/* Whether the coordinator can be told anything now. */
bool lsi_agent_is_connected(const lsi_agent *agent);

/* This launcher ends: nobody is to wait for an endpoint that it served. */
void lsi_agent_dismiss(lsi_agent *agent, int verdict);

/* A signal that has come to this launcher; whether all nodes get it. */
bool lsi_agent_report_signal(lsi_agent *agent, int number);

/* Of the job, once it is over. */
int lsi_agent_verdict(const lsi_agent *agent);

/* Once it is over: whether everybody has been told. */
bool lsi_agent_is_through(const lsi_agent *agent);

/* "rank 3 on host b (node 1, pid 17)" in out[bytes]; the rank by its place on
 * this node. */
void lsi_agent_name_rank(const lsi_agent *agent, int rank, int pid, char *out,
                         size_t bytes);

#endif
