/* Admission of nodes to a job. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"
#include "base/suspending_clock.h"
#include "launch/coordinator_state.h"

static int ranks_of(const lsi_coordinator *c)
{
    int ranks = 0;
    for (int i = 0; i < c->n; i++)
        ranks += c->members[i].local;
    return ranks;
}

/* The reason for refusing a node; "" if it may join. */
static void judge(const lsi_coordinator *c, const lsi_agent_message *join,
                  char *why, size_t bytes)
{
    const lsi_launch_nodes *const nodes = c->terms.nodes;
    const char *id = c->terms.run_id != NULL ? c->terms.run_id : "";
    char name[128];
    why[0] = '\0';
    if (strcmp(join->run, id) != 0)
        snprintf(why, bytes,
                 "the endpoint serves job '%s', but this host has --rdzv-id "
                 "'%s'; use the same --rdzv-id on all hosts",
                 id, join->run);
    else if (join->least != nodes->least || join->most != nodes->most)
        snprintf(why, bytes,
                 "this host has --nnodes %d:%d, but the job at the endpoint "
                 "has %d:%d; --nnodes must be the same on all hosts",
                 join->least, join->most, nodes->least, nodes->most);
    else if (c->stage == LSI_JOB_OVER)
        snprintf(why, bytes, "the job at the endpoint has ended");
    else if (!c->has_started && join->restart > c->terms.limits->max_restarts)
        snprintf(why, bytes,
                 "this host continues with restart number %d, but the launcher "
                 "at the endpoint was started with --max-restarts %d; use the "
                 "same --max-restarts on all hosts",
                 join->restart, c->terms.limits->max_restarts);
    for (int i = 0; i < c->n && why[0] == '\0'; i++) {
        const lsi_job_member *const m = &c->members[i];
        if (join->node < 0 || m->node != join->node ||
            strcmp(m->agent, join->agent) == 0)
            continue;
        snprintf(why, bytes,
                 "--node-rank %d is already used by host %s; give each host a "
                 "different --node-rank",
                 join->node, m->host);
    }
    if (why[0] == '\0' && ranks_of(c) + join->local > LSI_AGENT_MOST_RANKS)
        snprintf(why, bytes,
                 "the job at the endpoint already has %d ranks, and a job can "
                 "have at most %d",
                 ranks_of(c), LSI_AGENT_MOST_RANKS);
    if (why[0] == '\0' && c->n >= nodes->most) {
        lsi_coordinator_list_hosts(c, name, sizeof(name));
        snprintf(why, bytes,
                 "the job at the endpoint already has all its %d nodes: %s",
                 nodes->most, name);
    }
}

static ls_status make_member(lsi_coordinator *c, int peer,
                             const lsi_agent_message *join)
{
    if (!lsi_grow_array(&c->members, (size_t)c->n, &c->room,
                        sizeof(*c->members)))
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for one more node");
    lsi_job_member *const m = &c->members[c->n++];
    *m = (lsi_job_member){.peer = peer,
                          .node = join->node,
                          .local = join->local,
                          .port = join->port,
                          .arrival = c->arrivals++,
                          .group = -1,
                          .last_message = lsi_suspending_clock_seconds()};
    memcpy(m->agent, join->agent, sizeof(m->agent));
    memcpy(m->host, join->host, sizeof(m->host));
    lsi_agent_message_cpus(join, &m->claim);
    return LS_OK;
}

/*
 * Takes over the state of a job from a node that was in it, for a launcher that
 * replaces a lost one. So restarts stay limited, and logs of earlier attempts
 * stay apart. The launcher also waits for nodes that are still away.
 */
static void adopt_job(lsi_coordinator *c, const lsi_agent_message *join)
{
    if (c->has_started || join->restart <= c->restart)
        return;
    assert(join->restart <= c->terms.limits->max_restarts); /* as judged */
    c->restart = join->restart;
    c->has_lost = true;
    if (c->terms.run_id == NULL && join->past[0] != '\0')
        memcpy(c->run, join->past, sizeof(c->run));
    lsi_coordinator_print(
        c, "restart %d of %d: continuing the earlier job of host %s",
        c->restart, c->terms.limits->max_restarts, join->host);
}

void lsi_coordinator_join(lsi_coordinator *c, int peer,
                          const lsi_agent_message *message)
{
    char why[400];
    /* A node that returns has noticed the lost connection before us. */
    for (int i = 0; i < c->n; i++) {
        lsi_job_member *const m = &c->members[i];
        if (strcmp(m->agent, message->agent) != 0)
            continue;
        lsi_store_server_refuse(c->server, m->peer,
                                "this host has connected again");
        lsi_coordinator_lose(c, m, "it has connected again");
        break;
    }
    judge(c, message, why, sizeof(why));
    if (why[0] == '\0' && make_member(c, peer, message) != LS_OK)
        snprintf(why, sizeof(why), "%s", ls_last_error());
    if (why[0] != '\0') {
        lsi_store_server_refuse(c->server, peer, why);
        return;
    }
    adopt_job(c, message);
    if (c->stage == LSI_JOB_RUNNING)
        lsi_coordinator_print(
            c, "host %s has connected and joins at the next restart",
            message->host);
    else
        lsi_coordinator_check_meeting(c, lsi_suspending_clock_seconds());
}
