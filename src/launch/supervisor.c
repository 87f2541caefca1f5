/*
 * The life of a job: running; after a failure a grace, in which the other
 * ranks notice by themselves; then SIGTERM; then SIGKILL. One loop waits for
 * whatever comes first: a signal, a rank's end, output, a deadline.
 */
#include "launch/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/waking.h"
#include "launch/ranks.h"
#include "launch/signals.h"
#include "launch/sweep.h"

typedef enum phase { RUNNING, GRACE, TERMINATING, KILLING } phase;

typedef struct supervisor {
    const lsi_launch_config *config;
    lsi_ranks ranks;
    struct pollfd *polled; /* signals, lifeline, then the tags */
    phase phase;
    double timeout_at; /* in waking time; 0: never */
    double next_at;    /* when the next phase begins; 0: never */
    double stopped_at; /* when the ranks were told to stop; 0: they run */
    int verdict;       /* exit status of the job; -1: nobody failed so far */
    int end_requests;  /* from outside: INT, TERM, HUP, QUIT */
} supervisor;

enum { POLL_SIGNALS, POLL_LIFELINE, POLL_TAGS };

/* ---- phases ----------------------------------------------------------- */

/* Time in which the ranks were stopped was not theirs. */
static void go_on(supervisor *s)
{
    const double lost = lsi_waking_seconds() - s->stopped_at;
    if (s->stopped_at == 0)
        return;
    s->stopped_at = 0;
    s->timeout_at += s->timeout_at > 0 ? lost : 0;
    s->next_at += s->next_at > 0 ? lost : 0;
}

static void enter(supervisor *s, phase next)
{
    if (next <= s->phase)
        return;
    go_on(s);
    s->phase = next;
    s->next_at = lsi_waking_seconds() + s->config->grace;
    if (next == TERMINATING) {
        lsi_ranks_signal(&s->ranks, SIGTERM);
        /* One that is stopped would not notice. */
        lsi_ranks_signal(&s->ranks, SIGCONT);
    } else if (next == KILLING) {
        lsi_ranks_signal(&s->ranks, SIGKILL);
        s->next_at = 0;
    }
}

static void pass_deadlines(supervisor *s)
{
    const double now = lsi_waking_seconds();
    if (s->stopped_at > 0)
        return;
    if (s->timeout_at > 0 && now >= s->timeout_at) {
        s->timeout_at = 0;
        fprintf(stderr,
                "lockstep: timeout: %d of %d ranks did not end in %g s\n",
                s->ranks.alive, s->ranks.n, s->config->timeout);
        if (s->verdict < 0)
            s->verdict = LSI_EXIT_TIMEOUT;
        enter(s, TERMINATING);
    }
    if (s->next_at > 0 && now >= s->next_at)
        enter(s, (phase)(s->phase + 1));
}

/*
 * Milliseconds until the next look at the time, for poll; -1 if there is no
 * deadline.
 */
static int wait_ms(const supervisor *s)
{
    double at = s->timeout_at;
    if (at == 0 || (s->next_at > 0 && s->next_at < at))
        at = s->next_at;
    if (at == 0)
        return -1;
    const double ms = (at - lsi_waking_seconds()) * 1e3 + 1;
    if (ms < 0)
        return 0;
    return ms > LSI_SLICE_MS ? LSI_SLICE_MS : (int)ms;
}

/* ---- ranks that end --------------------------------------------------- */

static int exit_status_of(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void describe(int status, char *out, size_t bytes)
{
    if (WIFSIGNALED(status))
        snprintf(out, bytes, "was killed by signal %d (SIG%s)",
                 WTERMSIG(status), sigabbrev_np(WTERMSIG(status)));
    else
        snprintf(out, bytes, "ended with exit status %d", WEXITSTATUS(status));
}

/* The first failure is named; those that follow from it are not. */
static void blame(supervisor *s, const lsi_ended *first)
{
    const int status = first->status;
    char what[96];
    char rest[96] = "";
    s->verdict = exit_status_of(status);
    if (WIFSIGNALED(status) && s->end_requests > 0 &&
        lsi_signal_ends(WTERMSIG(status))) {
        fprintf(stderr, "lockstep: ended by SIG%s\n",
                sigabbrev_np(WTERMSIG(status)));
        return;
    }
    if (WIFEXITED(status) && s->config->quiet_exit)
        return;
    describe(status, what, sizeof(what));
    if (s->ranks.alive > 0)
        snprintf(rest, sizeof(rest), "; the others have %g s to end",
                 s->config->grace);
    fprintf(stderr, "lockstep: rank %d (pid %d) %s%s\n", first->rank,
            (int)first->pid, what, rest);
}

/*
 * Of several found dead at once the one killed by a signal counts as the
 * first: the others have more likely failed because of it.
 */
static bool is_earlier(const lsi_ended *a, const lsi_ended *b)
{
    return b->pid == 0 || (WIFSIGNALED(a->status) && !WIFSIGNALED(b->status));
}

static void reap(supervisor *s)
{
    lsi_ended ended;
    lsi_ended first = {0};
    while (lsi_ranks_reap(&s->ranks, &ended)) {
        if (exit_status_of(ended.status) != 0 && is_earlier(&ended, &first))
            first = ended;
    }
    if (first.pid == 0)
        return;
    if (s->verdict < 0)
        blame(s, &first);
    enter(s, GRACE);
}

/* ---- signals ---------------------------------------------------------- */

static void pass_on(supervisor *s, int number)
{
    lsi_ranks_signal(&s->ranks, number);
    if (number == SIGTSTP && s->stopped_at == 0)
        s->stopped_at = lsi_waking_seconds();
    if (number == SIGCONT)
        go_on(s);
    if (!lsi_signal_ends(number))
        return;
    /* The first is answered in peace: saving a checkpoint takes time. */
    if (++s->end_requests == 2)
        enter(s, TERMINATING);
}

static void read_signal(supervisor *s)
{
    struct signalfd_siginfo info;
    if (read(s->polled[POLL_SIGNALS].fd, &info, sizeof(info)) != sizeof(info))
        return;
    if (info.ssi_signo == SIGCHLD)
        reap(s);
    else
        pass_on(s, (int)info.ssi_signo);
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
    const int n_tags = s->ranks.n_tags;
    for (int i = 0; i < n_tags; i++)
        s->polled[POLL_TAGS + i] =
            (struct pollfd){.fd = s->ranks.tags[i].in, .events = POLLIN};
    if (poll(s->polled, (nfds_t)(POLL_TAGS + n_tags), wait_ms(s)) < 0)
        return;
    for (int i = 0; i < n_tags; i++) {
        if (is_ready(&s->polled[POLL_TAGS + i]))
            lsi_tag_pump(&s->ranks.tags[i]);
    }
    if (is_ready(&s->polled[POLL_SIGNALS]))
        read_signal(s);
    if (is_ready(&s->polled[POLL_LIFELINE])) {
        s->polled[POLL_LIFELINE].fd = -1;
        enter(s, KILLING);
    }
    pass_deadlines(s);
}

/* What the ranks left behind goes first: it may hold their output open. */
static void finish(supervisor *s)
{
    lsi_sweep(NULL, 0);
    for (int i = 0; i < s->ranks.n_tags; i++)
        lsi_tag_drain(&s->ranks.tags[i]);
}

static bool init(supervisor *s, int lifeline)
{
    const size_t polled = POLL_TAGS + 2 * (size_t)s->config->ranks;
    sigset_t pipe_signal;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigprocmask(SIG_BLOCK, &pipe_signal, NULL);
    setpgid(0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    s->polled = calloc(polled, sizeof(*s->polled));
    const int signals = open_signals();
    if (s->polled == NULL || signals < 0) {
        fprintf(stderr, "lockstep: cannot supervise ranks: %s\n",
                strerror(errno));
        free(s->polled);
        return false;
    }
    s->polled[POLL_SIGNALS] = (struct pollfd){.fd = signals, .events = POLLIN};
    s->polled[POLL_LIFELINE] =
        (struct pollfd){.fd = lifeline, .events = POLLIN};
    return true;
}

int lsi_supervise(const lsi_launch_config *config, int lifeline,
                  const sigset_t *mask)
{
    supervisor s = {.config = config, .verdict = -1};
    if (!init(&s, lifeline))
        return 1;
    const int failed = lsi_ranks_start(&s.ranks, config, mask);
    if (failed != 0) {
        s.verdict = failed;
        enter(&s, TERMINATING);
    }
    if (config->timeout > 0)
        s.timeout_at = lsi_waking_seconds() + config->timeout;
    while (s.ranks.alive > 0)
        step(&s);
    finish(&s);
    free(s.polled);
    return s.verdict < 0 ? 0 : s.verdict;
}
