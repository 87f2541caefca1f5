/* One host of a job that is started over ssh; see ssh.h. */
#include "launch/ssh.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/program.h"
#include "launch/environment.h"
#include "launch/launch.h"
#include "launch/signals.h"
#include "launch/spawn.h"
#include "launch/ssh_message.h"
#include "launch/sweep.h"
#include "lockstep/version.h"

typedef struct agent {
    char *input; /* input that has not been parsed yet */
    size_t used, room;
    bool input_ended;
    char **words; /* words of the launcher's command line */
    size_t n_words;
    pid_t launcher; /* 0: not started */
    sigset_t mask;  /* signal mask at the start */
    int signals;
} agent;

/* The address that ssh has connected to: "CLIENT PORT SERVER PORT". */
static void print_hello(void)
{
    char address[64] = "-";
    int port = 29400; /* unless another is free; reported, and used at once */
    const char *const connection = getenv("SSH_CONNECTION");
    if (connection != NULL)
        (void)sscanf(connection, "%*s %*s %63s", address);
    (void)lsi_free_port(true, &port);
    printf(LSI_SSH_HELLO " %s %d %s\n", ls_version_string(), port, address);
    fflush(stdout);
}

static ls_status add_word(agent *a, const char *text)
{
    char **const more = realloc(a->words, (a->n_words + 2) * sizeof(*more));
    if (more == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for a command line");
    a->words = more;
    more[a->n_words] = strdup(text);
    if (more[a->n_words] == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for a command line");
    more[++a->n_words] = NULL;
    return LS_OK;
}

static ls_status start(agent *a)
{
    char own[LSI_PROGRAM_BYTES];
    if (a->n_words == 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "the launcher sent no program to run on this host");
    LS_TRY(lsi_program_path(own));
    free(a->words[0]);
    a->words[0] = strdup(own);
    if (a->words[0] == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for a command line");
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const lsi_spawn what = {
        .argv = a->words,
        .environment = environ,
        .mask = &a->mask,
        .input = nothing,
        .output = -1,
        .error = -1,
        .orphan_guard = -1,
    };
    int error_number = 0;
    const ls_status status =
        lsi_spawn_process(&what, &a->launcher, &error_number);
    if (nothing >= 0)
        close(nothing);
    if (status == LS_OK && error_number != 0) {
        errno = error_number;
        return lsi_fail_errno(LS_ERR_SYSTEM, "cannot run '%s'", own);
    }
    return status;
}

static ls_status handle_message(agent *a, char kind, const char *text)
{
    switch (kind) {
    case LSI_SSH_FOLDER:
        if (chdir(text) != 0)
            return lsi_fail_errno(LS_ERR_IO, "cannot change to the folder '%s'",
                                  text);
        return LS_OK;
    case LSI_SSH_VARIABLE: {
        const char *const end = strchr(text, '=');
        char name[256];
        if (end == NULL || end == text || end - text >= (ptrdiff_t)sizeof(name))
            return lsi_fail(
                LS_ERR_ARGUMENT,
                "'%s' is not an environment variable of the form NAME=VALUE",
                text);
        memcpy(name, text, (size_t)(end - text));
        name[end - text] = '\0';
        if (setenv(name, end + 1, 1) != 0)
            return lsi_fail_errno(
                LS_ERR_MEMORY, "cannot set the environment variable %s", name);
        return LS_OK;
    }
    case LSI_SSH_WORD:
        return add_word(a, text);
    case LSI_SSH_GO:
        return a->launcher == 0 ? start(a) : LS_OK;
    case LSI_SSH_SIGNAL: {
        const int number = (int)strtol(text, NULL, 10);
        if (a->launcher > 0 && number > 0 && number < NSIG)
            (void)kill(a->launcher, number);
        return LS_OK;
    }
    default:
        return LS_OK; /* kind of a later version */
    }
}

static ls_status handle_input(agent *a)
{
    lsi_ssh_message m;
    for (;;) {
        LS_TRY(lsi_ssh_message_read(a->input, a->used, &m));
        if (m.used == 0)
            return LS_OK;
        char *const text = strndup(m.text, m.bytes);
        if (text == NULL)
            return lsi_fail(
                LS_ERR_MEMORY,
                "not enough memory for a message from the launcher");
        const ls_status status = handle_message(a, m.kind, text);
        free(text);
        LS_TRY(status);
        a->used -= m.used;
        memmove(a->input, a->input + m.used, a->used);
    }
}

static ls_status read_input(agent *a)
{
    enum { PIECE = 64 << 10 };
    if (a->room - a->used < PIECE) {
        char *const more = realloc(a->input, a->used + 2 * PIECE);
        if (more == NULL)
            return lsi_fail(
                LS_ERR_MEMORY,
                "not enough memory for a message from the launcher");
        a->input = more;
        a->room = a->used + 2 * PIECE;
    }
    const ssize_t bytes = read(STDIN_FILENO, a->input + a->used, PIECE);
    if (bytes < 0 && (errno == EINTR || errno == EAGAIN))
        return LS_OK;
    a->input_ended = bytes <= 0;
    a->used += bytes > 0 ? (size_t)bytes : 0;
    return handle_input(a);
}

/* Whether the launcher has ended, and its exit status. */
static bool has_ended(agent *a, int *exit_status)
{
    int status;
    if (a->launcher == 0 || waitpid(a->launcher, &status, WNOHANG) <= 0)
        return false;
    *exit_status = lsi_signal_exit_status(status);
    return true;
}

/* Signals to this process are meant for the job. */
static void read_signal(agent *a)
{
    struct signalfd_siginfo info;
    if (read(a->signals, &info, sizeof(info)) == sizeof(info) &&
        info.ssi_signo != SIGCHLD && a->launcher > 0)
        (void)kill(a->launcher, (int)info.ssi_signo);
}

static ls_status serve(agent *a, int *exit_status)
{
    *exit_status = 1;
    while (!has_ended(a, exit_status)) {
        struct pollfd polled[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                  {.fd = a->signals, .events = POLLIN}};
        if (poll(polled, 2, -1) < 0)
            continue;
        if (polled[1].revents != 0)
            read_signal(a);
        if (polled[0].revents != 0)
            LS_TRY(read_input(a));
        if (a->input_ended)
            return LS_OK; /* all processes are ended */
    }
    return LS_OK;
}

int lsi_ssh_serve(void)
{
    agent a = {0};
    int exit_status;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGPIPE); /* only blocked: the reader may be gone */
    sigprocmask(SIG_BLOCK, &set, &a.mask);
    sigdelset(&set, SIGPIPE);
    a.signals = signalfd(-1, &set, SFD_CLOEXEC);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    /*
     * If a program on this host replaces ssh, this process inherits the signal
     * that ends ssh with the front. Killed while it ends others, it would leave
     * processes in other sessions. The end of its input ends it instead.
     */
    prctl(PR_SET_PDEATHSIG, 0);
    print_hello();
    const ls_status status = serve(&a, &exit_status);
    if (status != LS_OK)
        fprintf(stderr, "lockstep: %s\n", ls_last_error());
    (void)lsi_sweep(NULL, 0);
    return exit_status;
}
