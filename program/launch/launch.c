/*
 * The front process: starts the supervisor, forwards signals to it, waits for
 * it.
 */
#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/requests.h"
#include "launch/signals.h"
#include "launch/supervisor.h"
#include "launch/sweep.h"

/* Process state that the front changes and restores at the end. */
typedef struct front {
    sigset_t waited; /* forwarded signals, and SIGCHLD */
    sigset_t mask_before;
    struct sigaction child_before;
    int subreaper_before;
    pid_t *children_before; /* children that this job must not end */
    size_t n_children_before;
    int parent_pipe[2];
} front;

static ls_status check(const lsi_launch_ranks *ranks)
{
    if (ranks->n < 1 || ranks->n > LSI_LAUNCH_MAX_RANKS)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "cannot start %d ranks on one host: the number must be "
                        "from 1 to %d",
                        ranks->n, LSI_LAUNCH_MAX_RANKS);
    if (ranks->argv == NULL || ranks->argv[0] == NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "no program was given for the ranks to run");
    return LS_OK;
}

static ls_status set_up(front *f)
{
    if (pipe2(f->parent_pipe, O_CLOEXEC) != 0)
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot create a pipe to start the ranks");
    /* With SIGCHLD ignored, wait would fail. */
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    sigaction(SIGCHLD, &usual, &f->child_before);
    lsi_signals_passed_on(&f->waited);
    sigaddset(&f->waited, SIGCHLD);
    sigprocmask(SIG_BLOCK, &f->waited, &f->mask_before);
    f->n_children_before = lsi_children(&f->children_before);
    prctl(PR_GET_CHILD_SUBREAPER, &f->subreaper_before);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return LS_OK;
}

static void tear_down(front *f)
{
    close(f->parent_pipe[0]);
    close(f->parent_pipe[1]);
    free(f->children_before);
    prctl(PR_SET_CHILD_SUBREAPER, f->subreaper_before);
    sigaction(SIGCHLD, &f->child_before, NULL);
    sigprocmask(SIG_SETMASK, &f->mask_before, NULL);
}

/* Waits for the supervisor; returns its status as from waitpid. */
static int wait_for(const front *f, pid_t supervisor)
{
    int status;
    siginfo_t info;
    lsi_requests requests = {0};
    while (waitpid(supervisor, &status, WNOHANG) != supervisor) {
        const int number = sigwaitinfo(&f->waited, &info);
        if (number <= 0 || number == SIGCHLD)
            continue;
        if (lsi_signal_ends(number) &&
            !lsi_request_counts(&requests, &info, lsi_clock_seconds()))
            continue;
        kill(supervisor, number);
        if (number == SIGTSTP)
            raise(SIGSTOP); /* until SIGCONT, which is forwarded as well */
    }
    return status;
}

/*
 * The supervisor is lost: the kernel kills the ranks, the front all others. The
 * message comes last, since the reader of stderr may stall.
 */
static int supervisor_lost(const front *f, int number)
{
    (void)lsi_sweep(f->children_before, f->n_children_before);
    fprintf(stderr,
            "lockstep: the supervisor process was killed by signal %d; all "
            "ranks were killed\n",
            number);
    return 128 + number;
}

ls_status lsi_launch(const lsi_launch_config *config, int *exit_status)
{
    front f = {0};
    LS_TRY(check(&config->ranks));
    LS_TRY(set_up(&f));
    fflush(NULL); /* or the supervisor would have a copy of buffered output */
    const pid_t supervisor = fork();
    if (supervisor == 0) {
        close(f.parent_pipe[1]);
        _exit(lsi_supervise(config, f.parent_pipe[0], &f.mask_before));
    }
    if (supervisor < 0) {
        const int error_number = errno;
        tear_down(&f);
        errno = error_number;
        return lsi_fail_errno(
            LS_ERR_SYSTEM, "cannot start the supervisor process of the ranks");
    }
    const int status = wait_for(&f, supervisor);
    if (WIFSIGNALED(status))
        *exit_status = supervisor_lost(&f, WTERMSIG(status));
    else
        *exit_status = WEXITSTATUS(status);
    tear_down(&f);
    return LS_OK;
}
