/*
 * Starts programs with clone and exec. Until exec the child uses this process's
 * memory, since copying the page tables, as fork does, would take most of the
 * time. So the child can store there why it could not run the program.
 */
#include "launch/spawn.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
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

/* Resets handlers, which would run in the parent's memory. */
static void forget_handlers(void)
{
    struct sigaction action;
    for (int number = 1; number < NSIG; number++) {
        if (sigaction(number, NULL, &action) == 0 &&
            action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN)
            (void)signal(number, SIG_DFL);
    }
}

/* Runs in the child. Returns only if the program could not be run. */
static void become(const lsi_spawn *what, pid_t parent)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* The parent may have died before the line above. */
    if (getppid() != parent) {
        errno = ECHILD;
        return;
    }
    if (what->orphan_guard >= 0 && !lsi_orphan_guard_arm(what->orphan_guard) &&
        what->unguarded != NULL)
        *what->unguarded = errno; /* in the parent's memory */
    redirect(what->input, STDIN_FILENO);
    redirect(what->output, STDOUT_FILENO);
    redirect(what->error, STDERR_FILENO);
    if (what->place != NULL)
        (void)lsi_cpuset_bind(what->place); /* not bound on failure */
    if (what->files != NULL)
        (void)setrlimit(RLIMIT_NOFILE, what->files);
    if (what->spared)
        (void)signal(SIGUSR1, SIG_IGN); /* while it is still blocked */
    forget_handlers();
    sigprocmask(SIG_SETMASK, what->mask, NULL);
    execvpe(what->argv[0], what->argv, what->environment);
}

typedef struct child {
    const lsi_spawn *what;
    pid_t parent;
    int error_number; /* why the program could not be run */
} child;

static int run_child(void *context)
{
    child *const c = context;
    become(c->what, c->parent);
    c->error_number = errno;
    return LSI_EXIT_CANNOT_RUN;
}

/*
 * Stack size: execvpe() copies the arguments to the stack, for a script without
 * an interpreter.
 */
static size_t stack_for(char *const *argv)
{
    enum { LEAST_BYTES = 256 << 10 };
    size_t n = 0;
    while (argv[n] != NULL)
        n++;
    return LEAST_BYTES + n * sizeof(*argv);
}

ls_status lsi_spawn_process(const lsi_spawn *what, pid_t *pid,
                            int *error_number)
{
    child c = {.what = what, .parent = getpid()};
    const size_t stack_bytes = stack_for(what->argv);
    char *const stack = malloc(stack_bytes);
    if (stack == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory to start a process");
    /*
     * Stacks grow down. This thread continues once the child runs its program.
     */
    const pid_t started = clone(run_child, stack + stack_bytes,
                                CLONE_VM | CLONE_VFORK | SIGCHLD, &c);
    const int clone_error = errno;
    free(stack);
    if (started < 0) {
        errno = clone_error;
        return lsi_fail_errno(LS_ERR_SYSTEM, "cannot start a process");
    }
    *error_number = c.error_number;
    if (c.error_number == 0)
        *pid = started;
    else
        waitpid(started, NULL, 0);
    return LS_OK;
}
