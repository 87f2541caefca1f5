#include "launch/agent.h"

#include <assert.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/suspending_clock.h"
#include "comm/rendezvous/secret.h"
#include "launch/agent_state.h"
#include "launch/coordinator.h"
#include "launch/environment.h"
#include "launch/signals.h"

double lsi_agent_silence(const lsi_launch_nodes *nodes)
{
    enum { INTERVALS = 50 };
    const double seconds = INTERVALS * nodes->monitor_interval;
    return seconds < 1 ? 1 : seconds;
}

int lsi_agent_fd(const lsi_agent *agent)
{
    return agent->epoll;
}

lsi_agent_stage lsi_agent_get_stage(const lsi_agent *agent)
{
    return agent->stage;
}

void lsi_agent_place(const lsi_agent *agent, lsi_job_place *out)
{
    const lsi_agent_message *const p = &agent->place;
    assert(agent->stage == LSI_AGENT_RUNNING);
    *out = (lsi_job_place){.group = p->group,
                           .groups = p->groups,
                           .offset = p->offset,
                           .world = p->world,
                           .port = p->port,
                           .restart = p->restart,
                           .restarts = p->restarts,
                           .threads = p->threads};
    memcpy(out->job, p->job, sizeof(out->job));
    memcpy(out->run, p->run, sizeof(out->run));
    memcpy(out->master, agent->endpoint.host, sizeof(out->master));
    memcpy(out->endpoint, agent->at, sizeof(out->endpoint));
    memcpy(out->interface, agent->interface.name, sizeof(out->interface));
}

bool lsi_agent_next_order(lsi_agent *agent, lsi_agent_message *out)
{
    if (agent->n_orders == 0)
        return false;
    *out = agent->orders[0];
    agent->n_orders--;
    memmove(agent->orders, agent->orders + 1,
            (size_t)agent->n_orders * sizeof(*out));
    return true;
}

/* ---- what becomes of the ranks ---------------------------------------- */

bool lsi_agent_report_failure(lsi_agent *agent, int verdict, int strength,
                              const char *text)
{
    lsi_agent_message message = {
        .word = LSI_AGENT_FAILED, .verdict = verdict, .strength = strength};
    if (agent->connection != LSI_AGENT_CONNECTED)
        return false;
    snprintf(message.text, sizeof(message.text), "%s", text);
    lsi_agent_send(agent, &message);
    return true;
}

/*
 * A failure may precede the job's first START message, which numbers the nodes.
 * Then --node-rank is the number, if it was given.
 */
void lsi_agent_report_host(lsi_agent *agent, int verdict, int strength,
                           const char *what)
{
    const bool has_started = agent->place.groups > 0;
    const int node =
        has_started ? agent->place.group : agent->terms.nodes->node;
    char text[LSI_AGENT_TEXT_BYTES], number[32] = "";
    if (node >= 0)
        snprintf(number, sizeof(number), " (node %d)", node);
    snprintf(text, sizeof(text), "host %s%s %.300s", agent->host, number, what);
    (void)lsi_agent_report_failure(agent, verdict, strength, text);
}

void lsi_agent_report_end(lsi_agent *agent, int verdict, bool may_restart)
{
    const lsi_agent_message message = {.word = LSI_AGENT_DONE,
                                       .verdict = verdict};
    if (agent->stage != LSI_AGENT_RUNNING)
        return;
    if (!agent->is_lost) {
        agent->stage = LSI_AGENT_MEETING;
        lsi_agent_send(agent, &message);
        return;
    }
    agent->is_lost = false;
    if (agent->verdict < 0 && may_restart) {
        lsi_agent_search_again(agent);
        return;
    }
    agent->stage = LSI_AGENT_OVER;
    if (agent->verdict < 0)
        agent->verdict = verdict > 0 ? verdict : 1;
}

bool lsi_agent_report_signal(lsi_agent *agent, int number)
{
    const lsi_agent_message message = {.word = LSI_AGENT_ASKED,
                                       .number = number};
    if (agent->connection != LSI_AGENT_CONNECTED)
        return false;
    lsi_agent_send(agent, &message);
    return true;
}

bool lsi_agent_is_connected(const lsi_agent *agent)
{
    return agent->connection == LSI_AGENT_CONNECTED;
}

void lsi_agent_dismiss(lsi_agent *agent, int verdict)
{
    char text[LSI_AGENT_TEXT_BYTES];
    snprintf(text, sizeof(text), "the launcher of host %s (node 0) has ended",
             agent->host);
    if (agent->coordinator != NULL)
        lsi_coordinator_finish(agent->coordinator, verdict, text);
}

int lsi_agent_verdict(const lsi_agent *agent)
{
    assert(agent->stage == LSI_AGENT_OVER);
    return agent->verdict;
}

bool lsi_agent_is_through(const lsi_agent *agent)
{
    assert(agent->stage == LSI_AGENT_OVER);
    return agent->coordinator == NULL ||
           lsi_coordinator_is_through(agent->coordinator);
}

void lsi_agent_name_rank(const lsi_agent *agent, int rank, int pid, char *out,
                         size_t bytes)
{
    snprintf(out, bytes, "rank %d on host %s (node %d, pid %d)",
             agent->place.offset + rank, agent->host, agent->place.group, pid);
}

/* ---- beginning and end ------------------------------------------------ */

/*
 * The node given as the first serves, or else the first launcher that can. Of
 * several launchers on the endpoint's host, the first to bind serves.
 */
static ls_status serve(lsi_agent *a)
{
    const lsi_launch_nodes *const nodes = a->terms.nodes;
    lsi_store_refusal why;
    if (nodes->node > 0)
        return LS_OK;
    const ls_status status = lsi_coordinator_open(&a->terms, a->secret, a->name,
                                                  &a->coordinator, &why);
    if (status == LS_OK || nodes->node == 0)
        return status;
    return why == LSI_STORE_BUSY || why == LSI_STORE_ELSEWHERE ? LS_OK : status;
}

static ls_status open_all(lsi_agent *a)
{
    const struct timespec slice = {.tv_nsec = LSI_SLICE_NS};
    const struct itimerspec ticks = {slice, slice};
    struct epoll_event event = {.events = EPOLLIN};
    a->epoll = epoll_create1(EPOLL_CLOEXEC);
    a->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (a->epoll < 0 || a->timer < 0 ||
        timerfd_settime(a->timer, 0, &ticks, NULL) != 0 ||
        epoll_ctl(a->epoll, EPOLL_CTL_ADD, a->timer, &event) != 0)
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot set up the connection to other nodes");
    if (gethostname(a->host, sizeof(a->host) - 1) != 0)
        snprintf(a->host, sizeof(a->host), "?");
    LS_TRY(lsi_random_id(a->name));
    LS_TRY(lsi_secret_read(&a->secret));
    LS_TRY(lsi_endpoint_parse(a->terms.nodes->endpoint, &a->endpoint));
    lsi_endpoint_print(&a->endpoint, a->at);
    LS_TRY(lsi_endpoint_resolve(&a->endpoint, &a->addresses));
    a->address = a->addresses;
    while (a->secret == NULL && a->address != NULL &&
           !lsi_address_is_loopback(a->address->ai_addr))
        a->address = a->address->ai_next;
    LS_TRY(lsi_interface_choose(getenv("LOCKSTEP_INTERFACE"), a->at,
                                &a->interface));
    LS_TRY(serve(a));
    if (a->address == NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "other machines can reach the endpoint %s, so the "
                        "hosts need a secret: " LSI_SECRET_HOW,
                        a->at);
    if (a->coordinator == NULL)
        return LS_OK;
    if (epoll_ctl(a->epoll, EPOLL_CTL_ADD, lsi_coordinator_fd(a->coordinator),
                  &event) != 0)
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot set up the connection to other nodes");
    return LS_OK;
}

ls_status lsi_agent_open(const lsi_job_terms *terms,
                         const lsi_launch_ranks *ranks,
                         const lsi_output *output, lsi_agent **out)
{
    lsi_agent *const a = calloc(1, sizeof(*a));
    if (a == NULL)
        return lsi_fail(LS_ERR_MEMORY,
                        "not enough memory to connect to other nodes");
    a->terms = *terms;
    a->ranks = ranks;
    a->output = output;
    a->link.fd = -1;
    a->epoll = a->timer = -1;
    a->verdict = -1;
    a->since = lsi_suspending_clock_seconds();
    const ls_status status = open_all(a);
    if (status == LS_OK)
        *out = a;
    else
        lsi_agent_close(a);
    return status;
}

void lsi_agent_close(lsi_agent *agent)
{
    if (agent == NULL)
        return;
    lsi_link_close(&agent->link);
    lsi_coordinator_close(agent->coordinator);
    if (agent->addresses != NULL)
        freeaddrinfo(agent->addresses);
    if (agent->timer >= 0)
        close(agent->timer);
    if (agent->epoll >= 0)
        close(agent->epoll);
    lsi_free(agent->secret);
    free(agent);
}
