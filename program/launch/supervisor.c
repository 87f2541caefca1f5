/*
 * State over all attempts at a job: signals, restarts, output, and the single
 * loop that waits for the next event. An event is a signal, a rank's end,
 * output, or a deadline. Nothing else in it waits, since the reader of the
 * output may stall.
 */
#include "launch/supervisor.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/suspending_clock.h"
#include "launch/agent.h"
#include "launch/asking.h"
#include "launch/attempt.h"
#include "launch/ending.h"
#include "launch/relay.h"
#include "launch/run_report.h"
#include "launch/signals.h"

/* A later state includes the earlier ones. */
typedef enum standing {
    SUPERVISES,
    ALONE,   /* was asked to end, and no other node can be told */
    OVER,    /* unwritten output is lost */
    ORPHANED /* the front was killed */
} standing;

typedef struct supervisor {
    const lsi_launch_config *config;
    pid_t front;
    lsi_attempt attempt; /* current attempt */
    lsi_relay relay;
    lsi_run_report report;
    lsi_agent *agent; /* NULL: one node only */
    lsi_job_place place;
    struct rlimit files;   /* limit for the ranks, if this process needs more */
    struct pollfd *polled; /* signals, parent_pipe, output, agent, the tags */
    int end_requests;      /* from the front: INT, TERM, HUP, QUIT */
    standing standing;     /* towards the front and other nodes */
} supervisor;

enum { POLL_SIGNALS, POLL_PARENT, POLL_OUTPUT, POLL_AGENT, POLL_TAGS };

/* ---- deadlines -------------------------------------------------------- */

/*
 * A job without a request to end waits for a reader as any program does. A job
 * that has to end waits while the reader makes progress, and then for the
 * grace.
 */
static void limit_wait(supervisor *s, double now)
{
    lsi_attempt *const a = &s->attempt;
    bool lost = false;
    if (a->asked_by == 0 && !a->timed_out)
        return;
    a->next_at =
        lsi_relay_be_patient(&s->relay, now, s->config->limits.grace, &lost);
    if (lost && a->verdict < 0)
        a->verdict = a->timed_out ? LSI_EXIT_TIMEOUT : 128 + a->asked_by;
}

static void pass_deadlines(supervisor *s)
{
    const double now = lsi_suspending_clock_seconds();
    if (s->attempt.stopped_at > 0)
        return;
    lsi_attempt_pass_deadlines(&s->attempt, now);
    if (lsi_attempt_has_ended(&s->attempt))
        limit_wait(s, now);
}

/*
 * Milliseconds until the next deadline, for poll; -1 without a deadline.
 * `most`: most seconds that output may wait; -1: no limit.
 */
static int wait_ms(const supervisor *s, double most)
{
    const lsi_attempt *const a = &s->attempt;
    double at = a->timeout_at;
    if (at == 0 || (a->next_at > 0 && a->next_at < at))
        at = a->next_at;
    if (at == 0 && most < 0)
        return -1;
    double ms = (at - lsi_suspending_clock_seconds()) * 1e3 + 1;
    if (at == 0 || (most >= 0 && most * 1e3 + 1 < ms))
        ms = most * 1e3 + 1;
    if (ms < 0)
        return 0;
    return ms > LSI_SLICE_MS ? LSI_SLICE_MS : (int)ms;
}

/* ---- signals ---------------------------------------------------------- */

/* Forwards a signal to the ranks of this node. */
static void pass_on(supervisor *s, int number)
{
    if (number == SIGUSR1)
        lsi_ask_ranks(&s->attempt.ranks);
    else
        lsi_processes_signal(&s->attempt.ranks, number);
    if (number == SIGTSTP)
        lsi_attempt_suspend(&s->attempt);
    if (number == SIGCONT)
        lsi_attempt_resume(&s->attempt);
}

static void raise_standing(supervisor *s, standing next)
{
    if (s->standing < next)
        s->standing = next;
}

/*
 * Tells all nodes that the ranks are asked to end or, after a repeat, must end.
 */
static void notify_nodes(supervisor *s, int number, bool again)
{
    if (again)
        lsi_agent_report_host(s->agent, 128 + number, LSI_AGENT_FINAL,
                              "received a second request to end");
    else if (s->standing <= ALONE)
        s->standing =
            lsi_agent_report_signal(s->agent, number) ? SUPERVISES : ALONE;
}

/*
 * The front has told repeats from requests. A request to end from elsewhere
 * (systemd, Slurm) was most likely sent to every process of the job, the front
 * included. The front may forward it much later, so it never counts as a second
 * request.
 */
static void request_end(supervisor *s, int number, bool is_from_front)
{
    lsi_attempt *const a = &s->attempt;
    if (!is_from_front && a->asked_by != 0)
        return;
    assert(lsi_signal_ends(number));
    const bool again = is_from_front && ++s->end_requests > 1;
    if (a->asked_by == 0)
        a->asked_by = number;
    if (s->agent != NULL)
        notify_nodes(s, number, again);
    /* The ranks got the signal before us. */
    if (a->phase == LSI_PHASE_DOUBT) {
        a->phase = LSI_PHASE_RUNNING;
        a->next_at = 0;
    }
    /*
     * The first request is handled without hurry: saving a checkpoint takes
     * time.
     */
    if (!again || number != SIGTERM)
        lsi_processes_signal(&a->ranks, number);
    if (!again)
        return;
    lsi_attempt_enter(a, LSI_PHASE_TERMINATING);
    if (lsi_attempt_has_ended(a)) {
        raise_standing(s, OVER);
        a->verdict = a->verdict < 0 ? 128 + number : a->verdict;
    }
}

static void read_signal(supervisor *s)
{
    struct signalfd_siginfo info;
    if (read(s->polled[POLL_SIGNALS].fd, &info, sizeof(info)) != sizeof(info))
        return;
    const int number = (int)info.ssi_signo;
    if (number == SIGCHLD)
        lsi_attempt_reap(&s->attempt);
    else if (lsi_signal_ends(number))
        request_end(s, number, (pid_t)info.ssi_pid == s->front);
    else {
        pass_on(s, number);
        if (s->agent != NULL && (number == SIGTSTP || number == SIGCONT))
            (void)lsi_agent_report_signal(s->agent, number);
    }
}

/* Follows the orders of the coordinator. */
static void follow_orders(supervisor *s)
{
    lsi_agent_message order;
    while (lsi_agent_next_order(s->agent, &order)) {
        if (order.word == LSI_AGENT_END)
            lsi_attempt_end_on_failure(&s->attempt, order.verdict, order.text);
        else if (lsi_signal_ends(order.number))
            request_end(s, order.number, false);
        else
            pass_on(s, order.number);
    }
    if (lsi_agent_get_stage(s->agent) == LSI_AGENT_OVER)
        lsi_attempt_enter(&s->attempt, LSI_PHASE_TERMINATING);
}

static int open_signals(void)
{
    sigset_t set;
    lsi_signals_passed_on(&set);
    sigaddset(&set, SIGCHLD);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* ---- the loop --------------------------------------------------------- */

static bool is_ready(const struct pollfd *polled)
{
    return (polled->revents & (POLLIN | POLLHUP | POLLERR)) != 0;
}

static void step(supervisor *s)
{
    lsi_processes *const ranks = &s->attempt.ranks;
    const int n_tags = lsi_attempt_has_ended(&s->attempt) ? 0 : ranks->n_tags;
    const double most = lsi_relay_to_poll(&s->relay, ranks->tags, n_tags,
                                          s->polled + POLL_TAGS);
    if (poll(s->polled, (nfds_t)(POLL_TAGS + n_tags), wait_ms(s, most)) < 0)
        return;
    lsi_relay_watch_readers(&s->relay);
    if (is_ready(&s->polled[POLL_SIGNALS]))
        read_signal(s);
    if (is_ready(&s->polled[POLL_PARENT])) {
        s->polled[POLL_PARENT].fd = -1;
        if (s->agent != NULL)
            lsi_agent_report_host(s->agent, 1, LSI_AGENT_STRONG,
                                  "is lost: its launcher was killed");
        lsi_attempt_enter(&s->attempt, LSI_PHASE_KILLING);
        raise_standing(s, ORPHANED);
    }
    if (is_ready(&s->polled[POLL_OUTPUT]))
        lsi_relay_check_output(&s->relay);
    if (is_ready(&s->polled[POLL_AGENT])) {
        lsi_agent_step(s->agent);
        follow_orders(s);
    }
    lsi_relay_read(&s->relay, ranks->tags, n_tags, s->polled + POLL_TAGS);
    pass_deadlines(s);
}

/* ---- attempts --------------------------------------------------------- */

static void write_what_is_left(supervisor *s)
{
    lsi_processes *const ranks = &s->attempt.ranks;
    assert(ranks->alive == 0); /* all writers have ended */
    while (s->standing < OVER &&
           !lsi_relay_drain(&s->relay, ranks->tags, ranks->n_tags))
        step(s);
}

/*
 * All ranks have ended. Their remaining processes are killed first, since they
 * may hold their output open. Then the remaining output is written.
 */
static void drain(supervisor *s)
{
    lsi_attempt_sweep(&s->attempt);
    lsi_relay_watch_readers(&s->relay);
    pass_deadlines(s);
    write_what_is_left(s);
}

/*
 * Whether to make another attempt, after a failure of running ranks. A
 * requested end is final. So is a failure that would repeat: a program that
 * cannot be run, a command line that it refuses, or training that diverges.
 */
static bool is_worth_another(const supervisor *s)
{
    const lsi_attempt *const a = &s->attempt;
    const int limit = s->config->limits.max_restarts;
    if (a->verdict <= 0 || a->phase == LSI_PHASE_NOT_STARTED ||
        a->asked_by != 0 || a->timed_out || s->standing >= OVER || limit == 0)
        return false;
    char text[128];
    const bool repeats =
        a->first_failed >= 0 && lsi_exit_repeats(a->verdict) != NULL;
    if (!repeats && a->ranks.attempt < limit) {
        lsi_output_print(a->output, "restart %d of %d: all ranks start again",
                         a->ranks.attempt + 1, limit);
        return true;
    }
    lsi_exit_describe(a->verdict, a->ranks.attempt, limit, text, sizeof(text));
    lsi_output_print(a->output, "%s", text);
    return false;
}

/* Whether it was asked to end, or has to, while no other node can be told. */
static bool ends_alone(const supervisor *s, bool was_timed_out)
{
    const bool is_lost = !lsi_agent_is_connected(s->agent);
    return (s->attempt.asked_by != 0 && (s->standing >= ALONE || is_lost)) ||
           (was_timed_out && is_lost);
}

/*
 * Waits until all nodes have joined, or until they have told each other how the
 * job ended. Returns whether to start ranks.
 */
static bool wait_for_nodes(supervisor *s)
{
    lsi_attempt *const a = &s->attempt;
    const bool was_timed_out = a->timed_out; /* as all other nodes will hear */
    assert(lsi_attempt_has_ended(a));
    while (lsi_agent_get_stage(s->agent) == LSI_AGENT_MEETING &&
           s->standing < OVER && a->timed_out == was_timed_out &&
           !ends_alone(s, was_timed_out))
        step(s);
    if (lsi_agent_get_stage(s->agent) == LSI_AGENT_RUNNING) {
        lsi_agent_place(s->agent, &s->place);
        a->ranks.place = &s->place;
        return true;
    }
    if (lsi_agent_get_stage(s->agent) == LSI_AGENT_OVER)
        a->verdict = lsi_agent_verdict(s->agent);
    else if (a->timed_out && !was_timed_out) {
        lsi_output_print(
            a->output, "timeout: not all nodes joined within %g s (--timeout)",
            s->config->limits.timeout);
        a->verdict = LSI_EXIT_TIMEOUT;
    } else if (a->asked_by != 0 && !was_timed_out)
        a->verdict = 128 + a->asked_by;
    return false;
}

/* Reports and records the end of an attempt. */
static void end_attempt(supervisor *s)
{
    lsi_ending ending;
    lsi_ending_find(&ending, &s->attempt);
    lsi_ending_print(&ending);
    lsi_run_report_add(&s->report, &ending);
    lsi_ending_free(&ending);
    lsi_processes_clean(&s->attempt.ranks);
}

/* Runs an attempt; returns whether to make another. */
static bool attempt(supervisor *s, const sigset_t *mask)
{
    if (s->agent != NULL && !wait_for_nodes(s))
        return false;
    lsi_attempt_start(&s->attempt, mask);
    while (s->attempt.ranks.alive > 0)
        step(s);
    drain(s);
    end_attempt(s);
    if (s->agent != NULL)
        lsi_agent_report_end(s->agent,
                             s->attempt.verdict < 0 ? 0 : s->attempt.verdict,
                             s->attempt.asked_by == 0 && !s->attempt.timed_out);
    const bool again =
        s->agent != NULL ? s->standing < OVER : is_worth_another(s);
    if (again)
        lsi_processes_next(&s->attempt.ranks);
    return again;
}

/*
 * Blocks three signals. A lost reader, and a file that may not grow (ulimit
 * -f), become errors of write(). A terminal that stops background groups when
 * they write (tostop) does not stop this one.
 */
static void block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigaddset(&set, SIGXFSZ);
    sigaddset(&set, SIGTTOU);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

/*
 * A rank needs up to five descriptors, with its pipes, its logs and the watch
 * for its end. All ranks of all nodes may be connected to the endpoint at once.
 */
static void allow_descriptors(supervisor *s)
{
    enum { ENOUGH = 20000 };
    struct rlimit more;
    if (getrlimit(RLIMIT_NOFILE, &s->files) != 0)
        return;
    more = s->files;
    if (more.rlim_cur < ENOUGH)
        more.rlim_cur = more.rlim_max < ENOUGH ? more.rlim_max : ENOUGH;
    if (setrlimit(RLIMIT_NOFILE, &more) == 0)
        s->attempt.ranks.files = &s->files;
}

static ls_status init(supervisor *s, int parent_pipe)
{
    const size_t polled = POLL_TAGS + 2 * (size_t)s->config->ranks.n;
    const lsi_job_terms terms = {s->config->nodes, &s->config->limits,
                                 s->config->ranks.run_id};
    s->front = getppid();
    block_signals();
    setpgid(0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    LS_TRY(lsi_relay_open(&s->relay, s->config->output.folds));
    s->attempt.ranks.console = s->relay.console;
    s->attempt.output = &s->relay.output;
    s->attempt.ranks.output = &s->relay.output;
    allow_descriptors(s);
    if (s->config->nodes != NULL)
        LS_TRY(lsi_agent_open(&terms, &s->config->ranks, &s->relay.output,
                              &s->agent));
    s->attempt.agent = s->agent;
    const int fds[POLL_TAGS] = {
        [POLL_SIGNALS] = open_signals(),
        [POLL_PARENT] = parent_pipe,
        [POLL_OUTPUT] = s->relay.output.wake,
        [POLL_AGENT] = s->agent != NULL ? lsi_agent_fd(s->agent) : -1,
    };
    if (fds[POLL_SIGNALS] < 0)
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot create a signalfd to receive signals");
    s->polled = calloc(polled, sizeof(*s->polled));
    if (s->polled == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for %d ranks",
                        s->config->ranks.n);
    for (int i = 0; i < POLL_TAGS; i++)
        s->polled[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    return LS_OK;
}

/* The node that serves the endpoint leaves last. */
static void notify_end(supervisor *s)
{
    static const double most = 5;
    const int verdict = s->attempt.verdict;
    /* Another launcher may replace one that was killed. */
    if (s->agent != NULL && s->standing < ORPHANED)
        lsi_agent_dismiss(s->agent, verdict < 0 ? 1 : verdict);
    const double until = lsi_suspending_clock_seconds() + most;
    while (s->agent != NULL && s->standing < OVER &&
           lsi_agent_get_stage(s->agent) == LSI_AGENT_OVER &&
           !lsi_agent_is_through(s->agent) &&
           lsi_suspending_clock_seconds() < until)
        step(s);
}

static void write_report(supervisor *s)
{
    lsi_attempt *const a = &s->attempt;
    const int status = a->verdict < 0 ? 0 : a->verdict;
    if (lsi_run_report_write(&s->report, a, status) != LS_OK) {
        lsi_output_print(a->output, "the report was not written: %s",
                         ls_last_error());
        a->verdict = status == 0 ? 1 : status;
    }
}

int lsi_supervise(const lsi_launch_config *config, int parent_pipe,
                  const sigset_t *mask)
{
    supervisor s = {
        .config = config,
        .attempt = {.phase = LSI_PHASE_NOT_STARTED,
                    .limits = &config->limits,
                    .nodes = config->nodes,
                    .ranks = {.setup = &config->ranks,
                              .wanted = &config->output,
                              .max_restarts = config->limits.max_restarts}}};
    if (init(&s, parent_pipe) != LS_OK) {
        fprintf(stderr, "lockstep: %s%s\n",
                config->nodes != NULL ? "" : "cannot start the ranks: ",
                ls_last_error());
        return 1;
    }
    lsi_run_report_open(&s.report, config->output.report);
    if (config->limits.timeout > 0)
        s.attempt.timeout_at =
            lsi_suspending_clock_seconds() + config->limits.timeout;
    while (attempt(&s, mask))
        continue;
    notify_end(&s);
    write_report(&s);
    write_what_is_left(&s); /* messages since then */
    lsi_agent_close(s.agent);
    lsi_relay_close(&s.relay);
    lsi_attempt_free(&s.attempt);
    free(s.polled);
    if (s.attempt.verdict < 0)
        return s.relay.write_error == 0 ? 0 : 1;
    return s.attempt.verdict;
}
