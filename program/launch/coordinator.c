#include "launch/coordinator.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpus.h"
#include "base/error.h"
#include "base/signal_name.h"
#include "base/suspending_clock.h"
#include "launch/agent.h"
#include "launch/agent_message.h"
#include "launch/coordinator_state.h"
#include "launch/environment.h"
#include "launch/signals.h"

/* Seconds for which a failure that may be a consequence waits for its cause. */
#define CAUSE_SECONDS 0.1

/* ---- sending ---------------------------------------------------------- */

static void send_to(lsi_coordinator *c, int peer,
                    const lsi_agent_message *message)
{
    char *text;
    size_t bytes;
    if (lsi_agent_message_write(message, &text, &bytes) != LS_OK)
        return;
    lsi_store_server_send(c->server, peer, text, bytes);
    free(text);
}

static void send_to_all(lsi_coordinator *c, const lsi_agent_message *message)
{
    for (int i = 0; i < c->n; i++)
        send_to(c, c->members[i].peer, message);
}

void lsi_coordinator_print(lsi_coordinator *c, const char *format, ...)
{
    lsi_agent_message message = {.word = LSI_AGENT_SAY};
    va_list args;
    va_start(args, format);
    vsnprintf(message.text, sizeof(message.text), format, args);
    va_end(args);
    send_to_all(c, &message);
}

void lsi_coordinator_finish(lsi_coordinator *c, int verdict, const char *text)
{
    lsi_agent_message message = {.word = LSI_AGENT_FINISH, .verdict = verdict};
    if (c->stage == LSI_JOB_OVER)
        return;
    snprintf(message.text, sizeof(message.text), "%s", text);
    send_to_all(c, &message);
    c->stage = LSI_JOB_OVER;
}

/* ---- members ---------------------------------------------------------- */

static lsi_job_member *find_peer(lsi_coordinator *c, int peer)
{
    for (int i = 0; i < c->n; i++) {
        if (c->members[i].peer == peer)
            return &c->members[i];
    }
    return NULL;
}

static void forget(lsi_coordinator *c, lsi_job_member *m)
{
    *m = c->members[--c->n];
}

/* "host b (node 1)": hosts of two nodes may have the same name. */
static void name_of(const lsi_job_member *m, char *out, size_t bytes)
{
    if (m->group >= 0 || m->node >= 0)
        snprintf(out, bytes, "host %s (node %d)", m->host,
                 m->group >= 0 ? m->group : m->node);
    else
        snprintf(out, bytes, "host %s", m->host);
}

/* The own node comes first, then nodes with a given number, then by arrival. */
static bool comes_before(const lsi_coordinator *c, const lsi_job_member *a,
                         const lsi_job_member *b)
{
    const bool a_own = strcmp(a->agent, c->own) == 0;
    const bool b_own = strcmp(b->agent, c->own) == 0;
    if (a_own != b_own)
        return a_own;
    if (a->node != b->node && a->node >= 0 && b->node >= 0)
        return a->node < b->node;
    if ((a->node >= 0) != (b->node >= 0))
        return a->node >= 0;
    return a->arrival < b->arrival;
}

/* ---- failures --------------------------------------------------------- */

static void send_failure(lsi_coordinator *c)
{
    lsi_agent_message message = {.word = LSI_AGENT_END,
                                 .verdict = c->first.verdict};
    char rest[64] = "";
    int running = 0;
    assert(c->stage == LSI_JOB_RUNNING);
    assert(c->first.is_there && !c->first.is_sent); /* sent once */
    for (int i = 0; i < c->n; i++)
        running += c->members[i].takes_part && !c->members[i].is_done;
    if (running > 0)
        snprintf(rest, sizeof(rest), "; the other ranks have %g s to end",
                 c->terms.limits->grace);
    snprintf(message.text, sizeof(message.text), "%.420s%s", c->first.text,
             rest);
    c->first.is_sent = true;
    send_to_all(c, &message);
}

/* The first failure counts, unless a stronger one arrives before it is sent. */
static void record_failure(lsi_coordinator *c, int verdict, int strength,
                           const char *text)
{
    lsi_job_failure *const f = &c->first;
    if (c->stage != LSI_JOB_RUNNING ||
        (f->is_there && (f->is_sent || strength <= f->strength)))
        return;
    *f = (lsi_job_failure){.is_there = true,
                           .verdict = verdict,
                           .strength = strength,
                           .at = f->is_there ? f->at
                                             : lsi_suspending_clock_seconds()};
    snprintf(f->text, sizeof(f->text), "%s", text);
    if (strength != LSI_AGENT_WEAK)
        send_failure(c);
}

static void conclude(lsi_coordinator *c);

void lsi_coordinator_lose(lsi_coordinator *c, lsi_job_member *m,
                          const char *why)
{
    char name[128], text[LSI_AGENT_TEXT_BYTES];
    name_of(m, name, sizeof(name));
    if (c->stage == LSI_JOB_OVER || !m->takes_part || m->is_done) {
        if (c->stage == LSI_JOB_MEETING)
            lsi_coordinator_print(c, "%s has left: %s", name, why);
        c->has_lost =
            c->has_lost || (m->takes_part && c->stage != LSI_JOB_OVER);
        forget(c, m);
        return;
    }
    snprintf(text, sizeof(text), "%s is lost: %s", name, why);
    forget(c, m);
    c->has_lost = true;
    record_failure(c, 1, LSI_AGENT_STRONG, text);
    conclude(c);
}

static void gone(void *context, int peer, const char *why)
{
    lsi_coordinator *const c = context;
    lsi_job_member *const m = find_peer(c, peer);
    if (m != NULL)
        lsi_coordinator_lose(c, m, why);
}

/* ---- starting --------------------------------------------------------- */

static int compare(const void *x, const void *y, void *context)
{
    return comes_before(context, x, y) ? -1 : 1;
}

/*
 * Claims of all nodes, in their order. NULL without memory: nothing is divided.
 */
static lsi_cpu_claim *list_claims(const lsi_coordinator *c)
{
    lsi_cpu_claim *const claims = calloc((size_t)c->n, sizeof(*claims));
    for (int i = 0; i < c->n && claims != NULL; i++)
        claims[i] = c->members[i].claim;
    return claims;
}

/* Most threads of a rank; 0: the machine has no other node. */
static int threads_of(const lsi_coordinator *c, const lsi_cpu_claim *claims,
                      int member)
{
    if (claims == NULL)
        return 0;
    const int share = lsi_cpu_claim_share(claims, (size_t)c->n, (size_t)member);
    return share < LSI_MAX_THREADS ? share : LSI_MAX_THREADS;
}

static void start(lsi_coordinator *c)
{
    lsi_agent_message message = {.word = LSI_AGENT_START,
                                 .groups = c->n,
                                 .restart = c->restart,
                                 .restarts = c->terms.limits->max_restarts};
    assert(c->stage == LSI_JOB_MEETING);
    assert(c->n > 0 && c->n <= c->terms.nodes->most);
    qsort_r(c->members, (size_t)c->n, sizeof(lsi_job_member), compare, c);
    message.port = c->members[0].port;
    if (lsi_random_id(message.job) != LS_OK ||
        (message.port == 0 && lsi_free_port(true, &message.port) != LS_OK)) {
        lsi_coordinator_finish(c, 1, ls_last_error());
        return;
    }
    memcpy(message.run, c->run, sizeof(message.run));
    for (int i = 0; i < c->n; i++)
        message.world += c->members[i].local;
    lsi_store_server_clear(c->server);
    c->first = (lsi_job_failure){.is_there = false};
    c->stage = LSI_JOB_RUNNING;
    c->has_started = true;
    c->has_lost = false;
    lsi_cpu_claim *const claims = list_claims(c);
    for (int i = 0; i < c->n; i++) {
        lsi_job_member *const m = &c->members[i];
        m->group = i;
        m->takes_part = true;
        m->is_done = false;
        message.group = i;
        message.local = m->local;
        message.threads = threads_of(c, claims, i);
        send_to(c, m->peer, &message);
        message.offset += m->local;
    }
    free(claims);
}

static void begin_meeting(lsi_coordinator *c)
{
    assert(c->stage != LSI_JOB_OVER);
    c->stage = LSI_JOB_MEETING;
    c->since = lsi_suspending_clock_seconds();
    c->reported_at = c->since;
    c->enough = 0;
    for (int i = 0; i < c->n; i++)
        c->members[i].takes_part = false;
}

void lsi_coordinator_list_hosts(const lsi_coordinator *c, char *out,
                                size_t bytes)
{
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < c->n && at + 80 < bytes; i++)
        at += (size_t)snprintf(out + at, bytes - at, "%s%s", i > 0 ? ", " : "",
                               c->members[i].host);
}

void lsi_coordinator_check_meeting(lsi_coordinator *c, double now)
{
    static const double report_after = 5;
    const lsi_launch_nodes *const nodes = c->terms.nodes;
    const int wanted = c->n < nodes->least ? nodes->least : nodes->most;
    char hosts[300], text[LSI_AGENT_TEXT_BYTES];
    bool own_is_there = false;
    for (int i = 0; i < c->n; i++)
        own_is_there = own_is_there || strcmp(c->members[i].agent, c->own) == 0;
    if (c->n < nodes->least || !own_is_there)
        c->enough = 0;
    else if (c->enough == 0)
        c->enough = now;
    if (own_is_there &&
        (c->n == nodes->most || (c->restart > 0 && !c->has_lost))) {
        start(c);
        return;
    }
    if (c->enough > 0 && now >= c->enough + nodes->last_call_seconds) {
        lsi_coordinator_print(c, "starting with %d of at most %d nodes", c->n,
                              nodes->most);
        start(c);
        return;
    }
    lsi_coordinator_list_hosts(c, hosts, sizeof(hosts));
    if (now >= c->since + nodes->join_seconds) {
        snprintf(text, sizeof(text),
                 "given up: within %g s (--rdzv-conf join_timeout) only %d of "
                 "%d nodes have joined (%s)",
                 nodes->join_seconds, c->n, nodes->least, hosts);
        lsi_coordinator_finish(c, 1, text);
    } else if (now >= c->reported_at + report_after) {
        c->reported_at = now + 5 * report_after;
        lsi_coordinator_print(
            c, "%d of %d nodes have joined (%s); waiting for %d more", c->n,
            wanted, hosts, wanted - c->n);
    }
}

/* ---- the end of an attempt -------------------------------------------- */

static bool is_worth_another(const lsi_coordinator *c, int verdict)
{
    return verdict != 0 && c->first.is_there &&
           c->first.strength != LSI_AGENT_FINAL && !c->was_asked &&
           c->terms.limits->max_restarts > c->restart;
}

static void begin_restart(lsi_coordinator *c)
{
    const lsi_launch_nodes *const nodes = c->terms.nodes;
    char what[160] = "the ranks of all nodes start again";
    c->restart++;
    assert(c->restart <= c->terms.limits->max_restarts);
    begin_meeting(c);
    if (c->has_lost && c->n >= nodes->least)
        snprintf(what, sizeof(what),
                 "waiting %g s for the lost node or a replacement, then "
                 "continuing with %d node%s",
                 nodes->last_call_seconds, c->n, c->n == 1 ? "" : "s");
    else if (c->has_lost)
        snprintf(what, sizeof(what),
                 "waiting %g s for the lost node or a replacement; %d of %d "
                 "nodes have joined",
                 nodes->join_seconds, c->n, nodes->least);
    lsi_coordinator_print(c, "restart %d of %d: %s", c->restart,
                          c->terms.limits->max_restarts, what);
    lsi_coordinator_check_meeting(c, c->since);
}

/* Called once all ranks of all nodes have ended. */
static void conclude(lsi_coordinator *c)
{
    char text[128] = "";
    int verdict = c->first.is_there ? c->first.verdict : 0;
    for (int i = 0; i < c->n; i++) {
        const lsi_job_member *const m = &c->members[i];
        if (c->stage != LSI_JOB_RUNNING || (m->takes_part && !m->is_done))
            return;
        if (verdict == 0 && m->takes_part)
            verdict = m->verdict;
    }
    if (c->first.is_there && !c->first.is_sent)
        send_failure(c);
    if (is_worth_another(c, verdict)) {
        begin_restart(c);
        return;
    }
    if (c->first.is_there && c->terms.limits->max_restarts > 0 && !c->was_asked)
        lsi_exit_describe(verdict, c->restart, c->terms.limits->max_restarts,
                          text, sizeof(text));
    lsi_coordinator_finish(c, verdict, text);
}

/* ---- what comes ------------------------------------------------------- */

static void forward_request(lsi_coordinator *c, const lsi_job_member *from,
                            int number)
{
    const lsi_agent_message passed = {.word = LSI_AGENT_SIGNAL,
                                      .number = number};
    char text[160];
    const bool ends = lsi_signal_ends(number);
    c->was_asked = c->was_asked || ends;
    if (c->stage == LSI_JOB_RUNNING)
        send_to_all(c, &passed);
    else if (c->stage == LSI_JOB_MEETING && ends) {
        snprintf(text, sizeof(text),
                 "host %s received %s, a request to end the job", from->host,
                 lsi_signal_name(number).text);
        lsi_coordinator_finish(c, 128 + number, text);
    }
}

/* Only the first message of a host is a JOIN. */
static ls_status read_message(const void *data, size_t bytes, bool joins,
                              lsi_agent_message *out)
{
    LS_TRY(lsi_agent_message_read(data, bytes, out));
    return (out->word == LSI_AGENT_JOIN) == joins
               ? LS_OK
               : lsi_fail(LS_ERR_FORMAT, "'word' is unexpected");
}

static void refuse_malformed(lsi_coordinator *c, int peer, lsi_job_member *m)
{
    char text[320], why[200];
    snprintf(why, sizeof(why), "it sent a malformed message: %s",
             ls_last_error());
    snprintf(text, sizeof(text),
             "this host sent a malformed message: %.150s; " LSI_ONE_VERSION,
             ls_last_error());
    lsi_store_server_refuse(c->server, peer, text);
    if (m != NULL)
        lsi_coordinator_lose(c, m, why);
}

static void handle_message(void *context, int peer, const void *data,
                           size_t bytes)
{
    lsi_coordinator *const c = context;
    lsi_agent_message message;
    lsi_job_member *const m = find_peer(c, peer);
    if (read_message(data, bytes, m == NULL, &message) != LS_OK) {
        refuse_malformed(c, peer, m);
        return;
    }
    if (m == NULL) {
        lsi_coordinator_join(c, peer, &message);
        return;
    }
    m->last_message = lsi_suspending_clock_seconds();
    if (message.word == LSI_AGENT_FAILED && m->takes_part) {
        record_failure(c, message.verdict, message.strength, message.text);
    } else if (message.word == LSI_AGENT_DONE && m->takes_part) {
        m->is_done = true;
        m->verdict = message.verdict;
        conclude(c);
    } else if (message.word == LSI_AGENT_ASKED) {
        forward_request(c, m, message.number);
    }
}

/* ---- time ------------------------------------------------------------- */

static void lose_silent_members(lsi_coordinator *c, double now)
{
    const lsi_agent_message ping = {.word = LSI_AGENT_PING};
    const double limit = lsi_agent_silence(c->terms.nodes);
    char why[64];
    if (now >= c->last_ping + limit / LSI_AGENT_PINGS) {
        c->last_ping = now;
        send_to_all(c, &ping);
    }
    for (int i = 0; i < c->n; i++) {
        lsi_job_member *const m = &c->members[i];
        if (now < m->last_message + limit)
            continue;
        snprintf(why, sizeof(why), "this host sent no message for %g s", limit);
        lsi_store_server_refuse(c->server, m->peer, why);
        snprintf(why, sizeof(why), "it sent no message for %g s", limit);
        lsi_coordinator_lose(c, m, why);
        return; /* the others at the next call */
    }
}

void lsi_coordinator_step(lsi_coordinator *c)
{
    lsi_store_server_step(c->server);
    const double now = lsi_suspending_clock_seconds();
    lose_silent_members(c, now);
    if (c->stage == LSI_JOB_MEETING)
        lsi_coordinator_check_meeting(c, now);
    else if (c->stage == LSI_JOB_RUNNING && c->first.is_there &&
             !c->first.is_sent && now >= c->first.at + CAUSE_SECONDS)
        send_failure(c);
}

int lsi_coordinator_fd(const lsi_coordinator *c)
{
    return lsi_store_server_fd(c->server);
}

bool lsi_coordinator_is_through(const lsi_coordinator *c)
{
    return c->stage == LSI_JOB_OVER && c->n == 0;
}

/* ---- beginning and end ------------------------------------------------ */

ls_status lsi_coordinator_open(const lsi_job_terms *terms, const char *secret,
                               const char *own, lsi_coordinator **out,
                               lsi_store_refusal *why)
{
    const lsi_launch_nodes *const nodes = terms->nodes;
    lsi_endpoint endpoint;
    *why = LSI_STORE_FAILED;
    lsi_coordinator *const c = calloc(1, sizeof(*c));
    if (c == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory to coordinate nodes");
    c->terms = *terms;
    snprintf(c->own, sizeof(c->own), "%s", own);
    const lsi_store_owner owner = {c, handle_message, gone};
    ls_status status = lsi_endpoint_parse(nodes->endpoint, &endpoint);
    if (status == LS_OK && terms->run_id != NULL)
        snprintf(c->run, sizeof(c->run), "%s", terms->run_id);
    else if (status == LS_OK) {
        char id[33] = "";
        status = lsi_random_id(id);
        memcpy(c->run, id, sizeof(id));
    }
    if (status == LS_OK)
        status = lsi_store_serve(&endpoint, secret, lsi_agent_silence(nodes),
                                 &owner, &c->server, why);
    if (status != LS_OK) {
        free(c);
        return status;
    }
    begin_meeting(c);
    *out = c;
    return LS_OK;
}

void lsi_coordinator_close(lsi_coordinator *c)
{
    if (c == NULL)
        return;
    lsi_store_server_close(c->server);
    free(c->members);
    free(c);
}
