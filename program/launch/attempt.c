/* One attempt at a job; see attempt.h. */
#include "launch/attempt.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/signal_name.h"
#include "base/suspending_clock.h"
#include "launch/agent.h"
#include "launch/signals.h"
#include "launch/sweep.h"

/* ---- phases ----------------------------------------------------------- */

void lsi_attempt_suspend(lsi_attempt *a)
{
    if (a->stopped_at == 0)
        a->stopped_at = lsi_suspending_clock_seconds();
}

/* The time in which the ranks were stopped does not count. */
void lsi_attempt_resume(lsi_attempt *a)
{
    const double lost = lsi_suspending_clock_seconds() - a->stopped_at;
    if (a->stopped_at == 0)
        return;
    a->stopped_at = 0;
    a->timeout_at += a->timeout_at > 0 ? lost : 0;
    a->next_at += a->next_at > 0 ? lost : 0;
}

void lsi_attempt_enter(lsi_attempt *a, lsi_phase next)
{
    assert(next <= LSI_PHASE_KILLING);
    if (next <= a->phase && !lsi_attempt_has_ended(a))
        return;
    if (a->phase == LSI_PHASE_DOUBT && next == LSI_PHASE_GRACE) {
        a->phase = next; /* lasts until next_at */
        return;
    }
    lsi_attempt_resume(a);
    if (lsi_attempt_has_ended(a))
        return;
    a->phase = next;
    a->next_at = lsi_suspending_clock_seconds() + a->limits->grace;
    if (next == LSI_PHASE_TERMINATING) {
        lsi_processes_signal(&a->ranks, SIGTERM);
        /* A stopped process would not notice the end. */
        lsi_processes_signal(&a->ranks, SIGCONT);
    } else if (next == LSI_PHASE_KILLING) {
        lsi_processes_signal(&a->ranks, SIGKILL);
        a->next_at = 0;
    }
}

static void time_out(lsi_attempt *a)
{
    assert(!a->timed_out);
    a->timeout_at = 0;
    a->timed_out = true;
    if (lsi_attempt_has_ended(a))
        return;
    lsi_output_print(
        a->output,
        "timeout: %d of %d ranks did not end within %g s (--timeout)",
        a->ranks.alive, a->ranks.n, a->limits->timeout);
    if (a->verdict < 0)
        a->verdict = LSI_EXIT_TIMEOUT;
    if (a->agent != NULL)
        lsi_agent_report_host(a->agent, LSI_EXIT_TIMEOUT, LSI_AGENT_FINAL,
                              "has reached its timeout");
    lsi_attempt_enter(a, LSI_PHASE_TERMINATING);
}

void lsi_attempt_pass_deadlines(lsi_attempt *a, double now)
{
    if (a->timeout_at > 0 && now >= a->timeout_at)
        time_out(a);
    if (lsi_attempt_has_ended(a) || a->next_at == 0 || now < a->next_at)
        return;
    lsi_attempt_enter(a, a->phase < LSI_PHASE_TERMINATING
                             ? LSI_PHASE_TERMINATING
                             : LSI_PHASE_KILLING);
}

/* ---- ranks that end --------------------------------------------------- */

static void describe(int status, char *out, size_t bytes)
{
    if (WIFSIGNALED(status))
        snprintf(out, bytes, "was killed by signal %d (%s)", WTERMSIG(status),
                 lsi_signal_name(WTERMSIG(status)).text);
    else
        snprintf(out, bytes, "ended with exit status %d", WEXITSTATUS(status));
}

/*
 * A rank that was asked to end and was killed by this signal, or exits with the
 * corresponding status, has not failed. The others may still save their state.
 */
static bool is_answer(int status)
{
    return lsi_signal_ends(lsi_signal_exit_status(status) - 128);
}

static void record_answer(lsi_attempt *a, int status)
{
    assert(a->asked_by != 0);
    if (a->verdict >= 0)
        return;
    assert(a->answer == 0); /* without a verdict it is the first */
    a->verdict = lsi_signal_exit_status(status);
    a->answer = status;
    lsi_output_print(a->output, "the job was ended by %s",
                     lsi_signal_name(a->verdict - 128).text);
}

/*
 * In a job of several nodes, reports the failure to the coordinator, which
 * tells all nodes which failure was the first. False without a connection.
 */
static bool report(lsi_attempt *a, const lsi_process_end *ended,
                   const char *what)
{
    const int verdict = lsi_signal_exit_status(ended->status);
    char who[128], text[256];
    int strength = LSI_AGENT_WEAK;
    if (a->agent == NULL)
        return false;
    if (WIFSIGNALED(ended->status))
        strength = LSI_AGENT_STRONG;
    else if (lsi_exit_repeats(verdict) != NULL)
        strength = LSI_AGENT_FINAL;
    lsi_agent_name_rank(a->agent, ended->rank, (int)ended->pid, who,
                        sizeof(who));
    snprintf(text, sizeof(text), "%s %s", who, what);
    memcpy(a->reported, text, sizeof(text));
    return lsi_agent_report_failure(a->agent, verdict, strength, text);
}

void lsi_attempt_end_on_failure(lsi_attempt *a, int verdict, const char *text)
{
    lsi_output_print(a->output, "%s", text);
    if (a->reported[0] == '\0' || strstr(text, a->reported) == NULL)
        snprintf(a->elsewhere, sizeof(a->elsewhere), "%s", text);
    if (a->verdict < 0)
        a->verdict = verdict;
    lsi_attempt_enter(a, LSI_PHASE_GRACE);
}

/*
 * Names the first failure, also after answers to a request to end. Failures
 * that follow from it are not named. Neither are ranks that failed because a
 * signal killed another rank, before the same signal reached them.
 */
static void blame(lsi_attempt *a, const lsi_process_end *first)
{
    const int status = first->status;
    char what[96];
    char rest[96] = "";
    if (a->verdict < 0)
        a->verdict = lsi_signal_exit_status(status);
    a->culprit = first->rank;
    if (WIFEXITED(status) &&
        (a->ranks.wanted->quiet_exit || WIFSIGNALED(a->answer)))
        return;
    describe(status, what, sizeof(what));
    a->first_failed = first->rank;
    if (report(a, first, what))
        return;
    if (a->ranks.alive > 0)
        snprintf(rest, sizeof(rest), "; the other ranks have %g s to end",
                 a->limits->grace);
    lsi_output_print(a->output, "rank %d (pid %d) %s%s",
                     lsi_processes_rank(&a->ranks, first->rank),
                     (int)first->pid, what, rest);
}

/*
 * Of several ranks found dead at once, one killed by a signal counts as the
 * first. The others have more likely failed because of it.
 */
static bool is_earlier(const lsi_process_end *x, const lsi_process_end *y)
{
    return y->pid == 0 || (WIFSIGNALED(x->status) && !WIFSIGNALED(y->status));
}

/* Whether the rank was ended by the signal that this process sent to all. */
static bool is_by_launcher(const lsi_attempt *a, int status)
{
    const int number = lsi_signal_exit_status(status) - 128;
    return (a->phase >= LSI_PHASE_TERMINATING && number == SIGTERM) ||
           (a->phase == LSI_PHASE_KILLING && number == SIGKILL);
}

static void note_failure(lsi_attempt *a, const lsi_process_end *end)
{
    if (a->failures == NULL)
        a->failures = calloc((size_t)a->ranks.setup->n, sizeof(*a->failures));
    if (a->failures != NULL && a->n_failures < a->ranks.setup->n)
        a->failures[a->n_failures++] =
            (lsi_rank_failure){*end, is_by_launcher(a, end->status)};
}

/*
 * Looks at the ranks that have ended, and finds the first of those that failed.
 * Returns the phase that follows.
 */
static lsi_phase find_suspect(lsi_attempt *a)
{
    lsi_process_end ended;
    lsi_phase next = LSI_PHASE_RUNNING;
    while (lsi_processes_reap(&a->ranks, &ended)) {
        if (lsi_signal_exit_status(ended.status) == 0) {
            a->ended_before[ended.rank] = a->culprit < 0;
            continue;
        }
        note_failure(a, &ended);
        if (a->asked_by != 0 && is_answer(ended.status)) {
            record_answer(a, ended.status);
            continue;
        }
        if (!is_answer(ended.status))
            next = LSI_PHASE_GRACE;
        else if (next == LSI_PHASE_RUNNING)
            next = LSI_PHASE_DOUBT;
        if ((a->suspect.pid != 0 || a->verdict < 0 ||
             a->phase == LSI_PHASE_RUNNING) &&
            is_earlier(&ended, &a->suspect))
            a->suspect = ended;
    }
    return next;
}

/*
 * A rank that was killed may be reaped later than ranks that failed because of
 * it, if it had begun to end earlier. Its SIGCHLD ends the wait for it.
 */
void lsi_attempt_reap(lsi_attempt *a)
{
    const lsi_phase next = find_suspect(a);
    if (a->suspect.pid != 0 && (WIFSIGNALED(a->suspect.status) ||
                                !lsi_processes_are_ending(&a->ranks))) {
        blame(a, &a->suspect);
        a->suspect = (lsi_process_end){0};
    }
    if (next != LSI_PHASE_RUNNING)
        lsi_attempt_enter(a, next);
}

/* ---- start and end ---------------------------------------------------- */

void lsi_attempt_start(lsi_attempt *a, const sigset_t *mask)
{
    assert(lsi_attempt_has_ended(a) && a->ranks.alive == 0);
    a->verdict = -1;
    a->first_failed = -1;
    a->culprit = -1;
    a->n_failures = 0;
    memset(a->ended_before, 0, sizeof(a->ended_before));
    a->reported[0] = a->elsewhere[0] = '\0';
    a->started = lsi_wall_clock_seconds();
    a->oom_known = lsi_cgroup_oom_kills("/proc/self/cgroup", "/sys/fs/cgroup",
                                        &a->oom_before);
    a->suspect = (lsi_process_end){0};
    a->answer = 0;
    a->phase = LSI_PHASE_RUNNING;
    a->next_at = 0;
    const int failed = lsi_processes_start(&a->ranks, mask);
    if (failed != 0) {
        a->verdict = failed;
        if (a->agent != NULL)
            lsi_agent_report_host(a->agent, failed, LSI_AGENT_FINAL,
                                  "cannot start its ranks");
        lsi_attempt_enter(a, LSI_PHASE_TERMINATING);
    }
}

void lsi_attempt_sweep(lsi_attempt *a)
{
    assert(!lsi_attempt_has_ended(a) && a->ranks.alive == 0);
    assert(a->suspect.pid == 0); /* it was blamed when the last one ended */
    const size_t left = lsi_sweep(NULL, 0);
    if (left > 0)
        lsi_output_print(
            a->output,
            "cannot kill processes of another user that the ranks left "
            "running: %zu",
            left);
    a->phase = a->ranks.started == a->ranks.setup->n ? LSI_PHASE_ENDED
                                                     : LSI_PHASE_NOT_STARTED;
    a->next_at = 0;
}

void lsi_attempt_free(lsi_attempt *a)
{
    assert(lsi_attempt_has_ended(a));
    free(a->failures);
    a->failures = NULL;
    a->n_failures = 0;
}
