/*
 * fork and exec, with the reason of a failed exec reported through a pipe that
 * a successful one closes.
 */
#include "launch/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "launch/launch.h"
#include "launch/orphan_guard.h"

static void redirect(int from, int to)
{
    if (from >= 0)
        dup2(from, to);
}

/* In the child. Returns only if the program could not be run. */
static void become(const lsi_spawn *what, pid_t parent)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* The parent may have died before the line above. */
    if (getppid() != parent)
        _exit(1);
    lsi_orphan_guard_take(what->orphan_guard);
    redirect(what->input, STDIN_FILENO);
    redirect(what->output, STDOUT_FILENO);
    redirect(what->error, STDERR_FILENO);
    if (what->place != NULL)
        (void)lsi_cpuset_bind(what->place); /* if it cannot be, it is not */
    if (what->files != NULL)
        (void)setrlimit(RLIMIT_NOFILE, what->files);
    if (what->spared)
        (void)signal(SIGUSR1, SIG_IGN); /* while it is still blocked */
    sigprocmask(SIG_SETMASK, what->mask, NULL);
    execvpe(what->argv[0], what->argv, what->environment);
}

static void run_child(const lsi_spawn *what, pid_t parent, int report)
{
    become(what, parent);
    const int error_number = errno;
    /* If even this fails, the status below is what remains. */
    const ssize_t written = write(report, &error_number, sizeof(error_number));
    (void)written;
    _exit(LSI_EXIT_CANNOT_RUN);
}

/* What the child reports: an errno, or nothing because exec closed the pipe. */
static int read_report(int fd)
{
    int error_number = 0;
    ssize_t bytes;
    do
        bytes = read(fd, &error_number, sizeof(error_number));
    while (bytes < 0 && errno == EINTR);
    return bytes == sizeof(error_number) ? error_number : 0;
}

ls_status lsi_spawn_process(const lsi_spawn *what, pid_t *pid,
                            int *error_number)
{
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0)
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot make a pipe to start a process");
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child == 0)
        run_child(what, parent, report[1]);
    close(report[1]);
    if (child < 0) {
        close(report[0]);
        return lsi_fail_errno(LS_ERR_SYSTEM, "cannot start a process");
    }
    setpgid(child, child);
    *error_number = read_report(report[0]);
    close(report[0]);
    if (*error_number == 0)
        *pid = child;
    else
        waitpid(child, NULL, 0);
    return LS_OK;
}
