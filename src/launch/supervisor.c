/*
 * The life of a job: running; after a failure a grace, in which the other
 * ranks notice by themselves; then SIGTERM; then SIGKILL. When all have ended,
 * what they wrote is written. One loop waits for whatever comes first: a
 * signal, a rank's end, output, a deadline. Nothing else in it waits: who reads
 * the output may stand still.
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

#include "base/error.h"
#include "base/suspending_clock.h"
#include "launch/logs.h"
#include "launch/output.h"
#include "launch/processes.h"
#include "launch/signals.h"
#include "launch/sweep.h"

typedef enum phase { RUNNING, GRACE, TERMINATING, KILLING } phase;

/* Who reads the output: nobody knows but by what has been written. */
typedef struct reader {
    uint64_t written;
    double still_since; /* when it was last seen not to stand still */
} reader;

typedef struct supervisor {
    const lsi_launch_config *config;
    pid_t front;
    lsi_processes ranks;
    lsi_output output;
    struct pollfd *polled; /* signals, parent_pipe, output, then the tags */
    int first_tag;         /* to be read next: each in its turn */
    phase phase;
    double timeout_at; /* in time of the suspending clock; 0: never */
    double next_at;    /* when the next phase begins; 0: never */
    double stopped_at; /* when the ranks were told to stop; 0: they run */
    int verdict;       /* exit status of the job; -1: nobody failed so far */
    int end_requests;  /* from the front: INT, TERM, HUP, QUIT */
    int asked_by;      /* the first from anywhere; 0: none */
    bool has_failed;   /* a rank, and not because it was asked to end */
    int first_failed;  /* that rank, once it is named */
    bool timed_out;
    int write_error;   /* of the output, which has been told; 0: none */
    bool told_log;     /* that a log could not be written */
    bool is_draining;  /* all ranks have ended */
    bool is_over;      /* what is not written yet is lost */
    reader readers[2]; /* of stdout, of stderr */
} supervisor;

enum { POLL_SIGNALS, POLL_PARENT, POLL_OUTPUT, POLL_TAGS };

/* ---- phases ----------------------------------------------------------- */

/* Time in which the ranks were stopped was not theirs. */
static void go_on(supervisor *s)
{
    const double lost = lsi_suspending_clock_seconds() - s->stopped_at;
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
    s->next_at = lsi_suspending_clock_seconds() + s->config->grace;
    if (next == TERMINATING) {
        lsi_processes_signal(&s->ranks, SIGTERM);
        /* One that is stopped would not notice. */
        lsi_processes_signal(&s->ranks, SIGCONT);
    } else if (next == KILLING) {
        lsi_processes_signal(&s->ranks, SIGKILL);
        s->next_at = 0;
    }
}

static void time_out(supervisor *s)
{
    s->timeout_at = 0;
    s->timed_out = true;
    if (s->is_draining)
        return;
    lsi_output_say(&s->output, "timeout: %d of %d ranks did not end in %g s",
                   s->ranks.alive, s->ranks.n, s->config->timeout);
    if (s->verdict < 0)
        s->verdict = LSI_EXIT_TIMEOUT;
    enter(s, TERMINATING);
}

/* Looked at before more is to be written. */
static void watch_readers(supervisor *s)
{
    for (int i = 0; i < 2; i++) {
        reader *r = &s->readers[i];
        const uint64_t written = lsi_sink_look(s->output.sinks[i]).written;
        if (written != r->written || !lsi_sink_is_stuck(s->output.sinks[i]))
            r->still_since = lsi_suspending_clock_seconds();
        r->written = written;
    }
}

static void give_output_up(supervisor *s, lsi_sink *sink)
{
    lsi_sink_give_up(sink);
    if (s->verdict < 0)
        s->verdict = s->timed_out ? LSI_EXIT_TIMEOUT : 128 + s->asked_by;
    lsi_output_say(&s->output, "output is lost: for %g s nobody has read it",
                   s->config->grace);
}

/*
 * A job that nobody wants to end waits for a reader as any program does. One
 * that is to end waits as long as somebody reads, and then a grace.
 */
static void be_patient(supervisor *s, double now)
{
    if (s->asked_by == 0 && !s->timed_out)
        return;
    s->next_at = 0;
    for (int i = 0; i < 2; i++) {
        double end = s->readers[i].still_since + s->config->grace;
        if (now >= end && lsi_sink_is_stuck(s->output.sinks[i]))
            give_output_up(s, s->output.sinks[i]);
        end = end > now ? end : now + s->config->grace;
        if (s->next_at == 0 || end < s->next_at)
            s->next_at = end;
    }
}

static void pass_deadlines(supervisor *s)
{
    const double now = lsi_suspending_clock_seconds();
    if (s->stopped_at > 0)
        return;
    if (s->timeout_at > 0 && now >= s->timeout_at)
        time_out(s);
    if (s->is_draining)
        be_patient(s, now);
    else if (s->next_at > 0 && now >= s->next_at)
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
    const double ms = (at - lsi_suspending_clock_seconds()) * 1e3 + 1;
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

/*
 * A rank that was asked to end and died of that, or exits with the status that
 * says so, has not failed: the others may still save what they have.
 */
static bool is_answer(int status)
{
    return lsi_signal_ends(exit_status_of(status) - 128);
}

static void take_answer(supervisor *s, int status)
{
    if (s->verdict >= 0)
        return;
    s->verdict = exit_status_of(status);
    lsi_output_say(&s->output, "ended by SIG%s",
                   sigabbrev_np(s->verdict - 128));
}

/*
 * The first failure is named, also one behind answers; those that follow from
 * it are not.
 */
static void blame(supervisor *s, const lsi_process_end *first)
{
    const int status = first->status;
    char what[96];
    char rest[96] = "";
    if (s->verdict < 0)
        s->verdict = exit_status_of(status);
    if (WIFEXITED(status) && s->config->quiet_exit)
        return;
    describe(status, what, sizeof(what));
    if (s->ranks.alive > 0)
        snprintf(rest, sizeof(rest), "; the others have %g s to end",
                 s->config->grace);
    s->first_failed = first->rank;
    lsi_output_say(&s->output, "rank %d (pid %d) %s%s", first->rank,
                   (int)first->pid, what, rest);
}

/*
 * Of several found dead at once the one killed by a signal counts as the
 * first: the others have more likely failed because of it.
 */
static bool is_earlier(const lsi_process_end *a, const lsi_process_end *b)
{
    return b->pid == 0 || (WIFSIGNALED(a->status) && !WIFSIGNALED(b->status));
}

static void reap(supervisor *s)
{
    lsi_process_end ended;
    lsi_process_end first = {0};
    while (lsi_processes_reap(&s->ranks, &ended)) {
        if (exit_status_of(ended.status) == 0)
            continue;
        s->has_failed = s->has_failed || !is_answer(ended.status);
        if (s->asked_by != 0 && is_answer(ended.status))
            take_answer(s, ended.status);
        else if (is_earlier(&ended, &first))
            first = ended;
    }
    if (first.pid == 0)
        return;
    if (s->verdict < 0 || s->phase == RUNNING)
        blame(s, &first);
    enter(s, GRACE);
}

/* ---- signals ---------------------------------------------------------- */

static void pass_on(supervisor *s, int number)
{
    lsi_processes_signal(&s->ranks, number);
    if (number == SIGTSTP && s->stopped_at == 0)
        s->stopped_at = lsi_suspending_clock_seconds();
    if (number == SIGCONT)
        go_on(s);
}

/*
 * The front has told repeats from requests. What comes from elsewhere, and
 * asks to end, has most likely been sent to every process of the job (systemd,
 * Slurm), the front among them, however late that gets round to it: so it is
 * never a second request.
 */
static void request_end(supervisor *s, int number, bool is_from_front)
{
    if (!is_from_front && s->asked_by != 0)
        return;
    const bool again = is_from_front && ++s->end_requests > 1;
    if (s->asked_by == 0)
        s->asked_by = number;
    if (s->phase == GRACE && !s->has_failed) { /* the ranks got it before us */
        s->phase = RUNNING;
        s->next_at = 0;
    }
    /* The first is answered in peace: saving a checkpoint takes time. */
    if (!again || number != SIGTERM)
        lsi_processes_signal(&s->ranks, number);
    if (!again)
        return;
    enter(s, TERMINATING);
    if (s->is_draining) {
        s->is_over = true;
        s->verdict = s->verdict < 0 ? 128 + number : s->verdict;
    }
}

static void read_signal(supervisor *s)
{
    struct signalfd_siginfo info;
    if (read(s->polled[POLL_SIGNALS].fd, &info, sizeof(info)) != sizeof(info))
        return;
    const int number = (int)info.ssi_signo;
    if (number == SIGCHLD)
        reap(s);
    else if (lsi_signal_ends(number))
        request_end(s, number, (pid_t)info.ssi_pid == s->front);
    else
        pass_on(s, number);
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

/*
 * What a write failed with is said once; true if it is said now. That a reader
 * has gone is no error.
 */
static bool tell_error(supervisor *s)
{
    for (int i = 0; i < 2 && s->write_error == 0; i++) {
        s->write_error = lsi_sink_look(s->output.sinks[i]).error;
        if (s->write_error == 0)
            continue;
        lsi_output_say(&s->output, "output is lost: cannot write to %s: %s",
                       i == 0 ? "stdout" : "stderr", strerror(s->write_error));
        return true;
    }
    return false;
}

static void look_at_output(supervisor *s)
{
    uint64_t changes;
    const ssize_t bytes = read(s->output.wake, &changes, sizeof(changes));
    (void)bytes; /* how often it has changed does not matter */
    (void)tell_error(s);
}

/* Said once: it is most likely the same for all. */
static void tell_log_error(supervisor *s, const lsi_tag *tag)
{
    if (tag->log_error == 0 || s->told_log)
        return;
    s->told_log = true;
    lsi_output_say(&s->output,
                   "output is lost: cannot write to the logs of "
                   "rank %d: %s",
                   tag->rank, strerror(tag->log_error));
}

static void read_tags(supervisor *s)
{
    const int n = s->is_draining ? 0 : s->ranks.n_tags;
    for (int k = 0; k < n; k++) {
        const int i = (s->first_tag + k) % n;
        if (is_ready(&s->polled[POLL_TAGS + i]))
            (void)lsi_tag_pump(&s->ranks.tags[i]);
        tell_log_error(s, &s->ranks.tags[i]);
    }
    s->first_tag = n > 0 ? (s->first_tag + 1) % n : 0;
}

static void step(supervisor *s)
{
    const int n_tags = s->is_draining ? 0 : s->ranks.n_tags;
    for (int i = 0; i < n_tags; i++)
        s->polled[POLL_TAGS + i] = (struct pollfd){
            .fd = lsi_tag_to_poll(&s->ranks.tags[i]), .events = POLLIN};
    if (poll(s->polled, (nfds_t)(POLL_TAGS + n_tags), wait_ms(s)) < 0)
        return;
    watch_readers(s);
    if (is_ready(&s->polled[POLL_SIGNALS]))
        read_signal(s);
    if (is_ready(&s->polled[POLL_PARENT])) {
        s->polled[POLL_PARENT].fd = -1;
        enter(s, KILLING);
        s->is_over = true;
    }
    if (is_ready(&s->polled[POLL_OUTPUT]))
        look_at_output(s);
    read_tags(s);
    pass_deadlines(s);
}

/* ---- the end ---------------------------------------------------------- */

static bool is_drained(supervisor *s)
{
    bool all = true;
    for (int i = 0; i < s->ranks.n_tags; i++) {
        all = lsi_tag_finish(&s->ranks.tags[i]) && all;
        tell_log_error(s, &s->ranks.tags[i]);
    }
    return all && lsi_output_is_empty(&s->output) && !tell_error(s);
}

/*
 * All ranks have ended: what they left behind goes first, since it may hold
 * their output open; then what they wrote is written.
 */
static void drain(supervisor *s)
{
    const size_t left = lsi_sweep(NULL, 0);
    if (left > 0)
        lsi_output_say(&s->output,
                       "%zu of the processes that the ranks left behind may "
                       "not be ended: they are another user's",
                       left);
    s->is_draining = true;
    s->next_at = 0;
    watch_readers(s);
    pass_deadlines(s);
    while (!s->is_over && !is_drained(s))
        step(s);
}

/* What a rank said last, if only its log has it. */
static void quote_log(supervisor *s)
{
    enum { LINES = 20 };
    const lsi_launch_config *const c = s->config;
    const int rank = s->first_failed;
    const bool shown =
        c->outputs == NULL || (c->outputs[rank].console & LSI_STREAM_ERR) != 0;
    char text[768];
    if (c->log_folder == NULL || rank < 0)
        return;
    const lsi_logs_of of = {c->log_folder, lsi_processes_run_id(&s->ranks, c),
                            s->ranks.attempt, rank};
    lsi_rank_logs_tail(&of, LINES, text, sizeof(text));
    if (!shown && text[0] != '\0')
        lsi_output_say(&s->output, "rank %d wrote last:\n%s", rank, text);
    lsi_output_say(&s->output, "logs of rank %d: %s/%s/%d/%d", rank, of.folder,
                   of.run_id, of.attempt, rank);
}

/* ---- attempts --------------------------------------------------------- */

static void start(supervisor *s, const sigset_t *mask)
{
    s->verdict = -1;
    s->first_failed = -1;
    s->has_failed = false;
    s->is_draining = false;
    s->phase = RUNNING;
    s->next_at = 0;
    const int failed = lsi_processes_start(&s->ranks, s->config, mask);
    if (failed != 0) {
        s->verdict = failed;
        enter(s, TERMINATING);
    }
}

/*
 * A failure of ranks that were running is worth another attempt; the end that
 * somebody asked for is not, nor is one that would only come again: a program
 * that cannot be run, a command line that it refuses.
 */
static bool is_worth_another(supervisor *s)
{
    static const int usage = 2;
    if (s->verdict <= 0 || !s->has_failed || s->asked_by != 0 || s->timed_out ||
        s->is_over || s->config->max_restarts == 0)
        return false;
    if (s->first_failed >= 0 && s->verdict == usage) {
        lsi_output_say(&s->output, "no restart: exit status 2 says that the "
                                   "command line is wrong");
        return false;
    }
    if (s->ranks.attempt < s->config->max_restarts) {
        lsi_output_say(&s->output, "restart %d of %d: all ranks start again",
                       s->ranks.attempt + 1, s->config->max_restarts);
        return true;
    }
    lsi_output_say(&s->output, "given up after %d restart%s",
                   s->config->max_restarts,
                   s->config->max_restarts == 1 ? "" : "s");
    return false;
}

/* Runs an attempt; whether there is to be another. */
static bool attempt(supervisor *s, const sigset_t *mask)
{
    start(s, mask);
    while (s->ranks.alive > 0)
        step(s);
    drain(s);
    quote_log(s);
    const bool again = is_worth_another(s);
    if (again)
        lsi_processes_next(&s->ranks);
    return again;
}

/*
 * A reader that has gone is an error of write(), and a terminal that stops
 * groups in the background when they write (tostop) does not stop this one.
 */
static void block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigaddset(&set, SIGTTOU);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

static ls_status init(supervisor *s, int parent_pipe)
{
    const size_t polled = POLL_TAGS + 2 * (size_t)s->config->ranks;
    s->front = getppid();
    block_signals();
    setpgid(0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    LS_TRY(lsi_output_open(&s->output));
    s->ranks.output = &s->output;
    const int fds[POLL_TAGS] = {
        [POLL_SIGNALS] = open_signals(),
        [POLL_PARENT] = parent_pipe,
        [POLL_OUTPUT] = s->output.wake,
    };
    if (fds[POLL_SIGNALS] < 0)
        return lsi_fail_errno(LS_ERR_SYSTEM, "cannot make a signalfd");
    s->polled = calloc(polled, sizeof(*s->polled));
    if (s->polled == NULL)
        return lsi_fail(LS_ERR_MEMORY, "no memory for %d ranks",
                        s->config->ranks);
    for (int i = 0; i < POLL_TAGS; i++)
        s->polled[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    return LS_OK;
}

int lsi_supervise(const lsi_launch_config *config, int parent_pipe,
                  const sigset_t *mask)
{
    supervisor s = {.config = config, .verdict = -1};
    if (init(&s, parent_pipe) != LS_OK) {
        fprintf(stderr, "lockstep: cannot supervise ranks: %s\n",
                ls_last_error());
        return 1;
    }
    if (config->timeout > 0)
        s.timeout_at = lsi_suspending_clock_seconds() + config->timeout;
    while (attempt(&s, mask))
        continue;
    while (!s.is_over && !is_drained(&s)) /* what was said since */
        step(&s);
    lsi_output_close(&s.output);
    free(s.polled);
    if (s.verdict < 0)
        s.verdict = s.write_error == 0 ? 0 : 1;
    return s.verdict;
}
